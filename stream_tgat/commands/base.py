"""What all commands share: help that keeps the lines of examples, errors told in a line, one console."""

from __future__ import annotations

import inspect
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stream_tgat.errors import StreamTgatError

_CLIENTS = ("kafka", "aiokafka")


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    # The clients also log what they raise, and each retry; without a logging setup all that would go to the terminal.
    levels = {name: logging.getLogger(name).level for name in _CLIENTS}
    for name in _CLIENTS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except StreamTgatError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        # Whoever stops a command knows what they stopped; partial results were reported by the command itself.
        raise click.exceptions.Exit(130) from None
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class Command(click.Command):
    """A command of this package; paragraphs of its docstring that are indented are shown as they are."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        if settings.get("help"):
            settings["help"] = _keep_examples(settings["help"])
        super().__init__(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; an error of this package becomes one line and exit code 1."""
        with _told_in_a_line():
            return super().invoke(ctx)


class CommandGroup(click.Group):
    """A command with subcommands, in the order in which they were added."""

    command_class = Command

    def __init__(self, *args: Any, **settings: Any) -> None:
        if settings.get("help"):
            settings["help"] = _keep_examples(settings["help"])
        super().__init__(*args, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order of definition: the order in which one needs them."""
        return list(self.commands)


def console(*, stderr: bool = False) -> Console:
    """Where a command writes; made when it runs, so that a redirected stream is respected."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def step_bars(*, disable: bool = False) -> Progress:
    """Bars on standard error that count steps of long work, and are gone when it is done. disable: show none"""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console(stderr=True), transient=True, disable=disable)


def when(seconds: float) -> str:
    """A point of time in unix seconds, as people write it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _keep_examples(text: str) -> str:
    """Mark each paragraph of commands with click's sign for "do not wrap".

    They are indented, unless nothing else follows the first line: then Python has taken the indentation away.
    """
    kept = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("faust "):
            kept.append("\b\n" + textwrap.indent(part, "  "))
        else:
            kept.append("\b\n" + part if part.startswith("  ") else part)
    return "\n\n".join(kept)
