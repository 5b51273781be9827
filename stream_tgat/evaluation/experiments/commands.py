"""What a command line of this folder was, as it is kept with the results that it made."""

import shlex
from collections.abc import Collection

import click

PROGRAM = "python -m stream_tgat.evaluation.experiments"

DATA = "$DATA"
"""Stands for the folder that the data sets lie in, which is another one on every machine."""

CHOICES = ("names", "seeds", "out")
"""Parameters that say how much of a table is made, and where, and change no number in it."""


def command_line(leaving_out: Collection[str] = CHOICES) -> str:
    """The click command that is running, as it makes the whole table: options that differ from their defaults.

    leaving_out: names of parameters that change no result
    """
    context = click.get_current_context()
    parts = [PROGRAM, str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        if isinstance(parameter, click.Argument):
            folders = value if isinstance(value, tuple) else (value,)
            parts += [f"{DATA}/{folder.resolve().name}" for folder in folders]
        elif name not in leaving_out and value != parameter.get_default(context):
            values = value if isinstance(value, tuple) else (value,)
            for each in values:
                parts += [parameter.opts[0]] if value is True else [parameter.opts[0], shlex.quote(str(each))]
    return " ".join(parts)
