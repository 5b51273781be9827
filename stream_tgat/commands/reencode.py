"""`release reencode`: the peer embeddings of the serving model for all rows that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from stream_tgat.brokers import reach
from stream_tgat.commands.base import console, step_bars
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from stream_tgat.renewal.reencoding import ReencodingCallbacks


def add_reencode(group: click.Group, topology: Topology) -> None:
    """Add it to `release`."""

    @group.command()
    @click.option(
        "--rate",
        type=click.FloatRange(min=1),
        help="Peer embeddings a second, at most. Default: retrain.reencoding_rate",
    )
    def reencode(rate: float | None) -> None:
        """Give all rows that workers keep the peer embeddings of the model that serves now.

        After a switch, rows keep what the model before has made of them, until they are replaced one by one; what rests
        on them is counted as `stale_rows`. This reads the log from its beginning, computes them anew beside the
        workers, and sends them while events go on. Afterwards embeddings are those of a model that has served from the
        beginning. It may be stopped at any time and run again. With one layer there is nothing to do.

          faust -A stream_tgat release reencode --rate 5000
        """
        from stream_tgat.nn.threads import use_threads
        from stream_tgat.renewal.lease import Lease
        from stream_tgat.renewal.reencoding import owed
        from stream_tgat.renewal.reencoding import reencode as make_anew

        reach(topology.kafka)
        ready = owed(topology)
        if ready is None:
            console().print("Nothing to do: no row holds a peer embedding of another model.")
            return
        use_threads(topology.retrain.threads)
        with Lease(topology), _bars() as told:
            done = make_anew(topology, ready, rate, told)
        console().print(
            f"{done.peer_embeddings:,} peer embeddings of model {done.version} (release [bold]{ready.name}[/]) "
            f"were sent, made of {done.interactions:,} interactions."
        )
        if done.inexact:
            console().print(
                "[yellow]The log no longer begins at offset 0, so they may differ from what the model would have made "
                "at the time.[/]"
            )


@contextmanager
def _bars() -> Iterator[ReencodingCallbacks]:
    """Progress on the terminal."""
    from stream_tgat.renewal.reencoding import ReencodingCallbacks as Listener

    with step_bars() as bars:
        task = bars.add_task("reading the log", total=None)

        def on_stage(what: str) -> None:
            bars.reset(task, total=None, description=what)

        def on_read(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        def on_sent(peer_embeddings: int) -> None:
            bars.update(task, completed=peer_embeddings)

        yield Listener(on_stage, on_read, on_sent)
