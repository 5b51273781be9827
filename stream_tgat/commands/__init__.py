"""Commands beside `worker`, such as `faust -A stream_tgat topics`; `_MODULES` names them.

Each is a click command made for one topology, and needs neither a running worker nor a Faust app.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stream_tgat.topology import Topology

# In the order in which a newcomer needs them. Each module has a function of its own name that makes its command.
_MODULES = (
    "topology",
    "topics",
    "replay",
    "tail",
    "inspect",
    "serve",
    "train",
    "evaluate",
    "retrain",
    "release",
    "status",
    "dead_letters",
    "plan",
)

EPILOG = """\b
STREAM_TGAT_TOPOLOGY names the deployment: a file, or one that comes with it (groceries).
A worker needs its topics, and a release that serves:
  faust -A stream_tgat topics create
  faust -A stream_tgat train          (or: release init, for untrained weights)
  faust -A stream_tgat worker
"""
"""What Faust's own help does not say; click does not wrap it."""


def commands(topology: Topology) -> list[click.Command]:
    """All commands for this topology."""
    made = []
    for name in _MODULES:
        make: Callable[[Topology], click.Command] = getattr(import_module(f"{__name__}.{name}"), f"{name}_command")
        made.append(make(topology))
    return made


def register(topology: Topology) -> None:
    """Attach the commands to Faust's own command line; called where the app is made."""
    from faust.cli.faust import cli

    import_module(f"{__name__}.agents")
    # What Faust would draw at the start of a worker, is told in its log.
    import_module("faust.cli.worker").worker.on_worker_created = lambda *_: None
    cli.params[:] = [option for option in cli.params if option.name != "version"]
    click.version_option(package_name="stream-tgat", message="stream-tgat %(version)s")(cli)
    for command in commands(topology):
        cli.add_command(command)
    for command in (cli, cli.commands["worker"]):
        command.epilog = EPILOG


def add_worker_option(name: str, help_text: str, tell: Callable[[bool], object]) -> None:
    """Give Faust's `worker` a flag of ours, whose value is told before the worker starts."""
    from faust.cli.faust import cli

    worker = cli.commands["worker"]
    worker.params = [each for each in worker.params if name not in each.opts]
    option = click.Option(
        [name], is_flag=True, expose_value=False, help=help_text, callback=lambda *said: tell(said[2])
    )
    worker.params.append(option)
