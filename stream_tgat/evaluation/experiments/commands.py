"""What a command line of this folder was, as it is kept with the results that it made."""

import shlex
from collections.abc import Collection
from pathlib import Path

import click
import torch

PROGRAM = "python -m stream_tgat.evaluation.experiments"

DATA = "$DATA"
"""Stands for the folder that the data sets lie in, which is another one on every machine."""

CHOICES = ("names", "seeds", "device", "out")
"""Parameters that say how much of a table is made, and where; a device's name stands with each result."""

device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    callback=lambda _context, _option, name: usable_device(name),
    help="That graph networks are trained on: cpu, cuda or cuda:1. All else is on the CPU.",
)


def command_line(leaving_out: Collection[str] = CHOICES) -> str:
    """The click command that is running, as it makes the whole table: options that differ from their defaults.

    leaving_out: names of parameters that change no result
    """
    context = click.get_current_context()
    parts = [PROGRAM, str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(parameter, click.Argument):
            parts += map(_word, values)
        elif name not in leaving_out and value is not None and value != parameter.get_default(context):
            if isinstance(value, bool):
                parts.append((parameter.opts if value else parameter.secondary_opts)[0])
            else:
                parts += [word for each in values for word in (parameter.opts[0], _word(each))]
    return " ".join(parts)


def usable_device(name: str) -> str:
    """A device's name, if torch knows it here; click says what is wrong otherwise."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as problem:
        said = str(problem).partition("\n")[0]
        raise click.BadParameter(f"{name!r} cannot be used here: {said}") from problem
    return name


def _word(value: object) -> str:
    """As a shell reads it; a path stands for the data set of that name."""
    return f"{DATA}/{value.resolve().name}" if isinstance(value, Path) else shlex.quote(str(value))
