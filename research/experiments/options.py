"""What the commands of this folder share: how they are told of data, and what is kept of a command line."""

import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console

from research.datasets.loading import load
from stream_tgat.datasets.table import Columns
from stream_tgat.errors import StreamTgatError
from stream_tgat.evaluation.link_prediction import LinkTask, link_task
from stream_tgat.nn.threads import use_one_thread

PROGRAM = "python -m research"

DATA = "$DATA"
"""Stands for the folder that the data sets lie in, which is another one on every machine."""

CHOICES = ("names", "seeds", "device", "out")
"""Parameters that say how much of a table is made, and where; a device's name stands with each result."""

data_argument = click.argument("data", type=click.Path(exists=True, path_type=Path))
out_option = click.option(
    "--out",
    default=Path("runs/experiments"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where results are kept; what is there is not run again.",
)
patience_option = click.option(
    "--patience", default=3, show_default=True, type=click.IntRange(1), help="Epochs without a better one."
)
learning_rate_option = click.option("--learning-rate", default=1e-3, show_default=True, type=float, help="Of Adam.")
households_option = click.option(
    "--households", default=0, show_default=True, type=click.IntRange(0), help="Of groceries; 0: all."
)
device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    callback=lambda _context, _option, name: usable_device(name),
    help="That graph networks are trained on: cpu, cuda or cuda:1. All else is on the CPU.",
)


def seeds_option(default: int, of: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """How often each thing is run; of: what that is, as in "Runs of each method."."""
    return click.option("--seeds", default=default, show_default=True, type=click.IntRange(1), help=of)


@contextmanager
def told() -> Iterator[Callable[[str, bool], None]]:
    """Run a command on one thread; an error of ours ends it as one line.

    Gives what tells each run by its key, and whether its result is there already.
    """
    use_one_thread()
    console = Console(stderr=True)
    try:
        yield lambda key, there: console.print(f"{'have' if there else 'run '} {key}", highlight=False)
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem


def show(found: object, width: int) -> None:
    """Print it as wide as the terminal is; elsewhere, as in a file, `width` columns wide."""
    Console(width=None if Console().is_terminal else width).print(found)


def takes_data(function: Callable[..., None]) -> Callable[..., None]:
    """Options that say which columns of a table hold what; the command gets them as `columns`."""

    @click.option("--columns", "column_names", default="src,dst,timestamp", show_default=True,
                  help="Of a table: source, destination, time and, if there is one, label.")  # fmt: skip
    @click.option("--features", help="Of a table: columns of numbers, with commas. Default: all others.")
    @click.option("--bipartite", is_flag=True, help="In a table, source 3 and destination 3 are different nodes.")
    @wraps(function)
    def command(*, column_names: str, features: str | None, bipartite: bool, **others: Any) -> None:
        chosen = column_names.split(",")
        if not 3 <= len(chosen) <= 4:
            raise click.BadParameter(f"three or four names are needed, not {len(chosen)}", param_hint="--columns")
        wanted = None if features is None else tuple(name for name in features.split(",") if name)
        source, destination, time, *label = chosen
        columns = Columns(source, destination, time, label[0] if label else None, wanted, bipartite)
        function(**others, columns=columns)

    return command


def link_task_of(data: Path, columns: Columns) -> LinkTask:
    """The task of published tables on the interactions of DATA, with what it says of nodes. Raises as `load` does."""
    found = load(data, columns)
    return link_task(found.name, found.interactions, found.node_features)


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
