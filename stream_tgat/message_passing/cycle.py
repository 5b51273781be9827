"""A cycle, in the engine's thread: receive, compute, encode, and take what is to be stored.

It knows the engine and what records look like, and no brokers. What it has done is in memory only; `Cycle` says what
must now become durable, and in which order (see `committing`).
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import Computed, Engine, PeerEmbeddings
from stream_tgat.message_passing.commit_sizes import RECEIVED_SHARE
from stream_tgat.message_passing.latest import LatestWriter
from stream_tgat.message_passing.outputs import OutputEncoder
from stream_tgat.message_passing.partition import Partition
from stream_tgat.message_passing.receiving import ReceivedCounts, receive
from stream_tgat.message_passing.record_times import Written
from stream_tgat.message_passing.traces import Traces
from stream_tgat.rocks import Change
from stream_tgat.topology import Topology
from stream_tgat.transport.outbox import Delivery
from stream_tgat.wire.packets import Source, partitions_of

#: A cycle computes until it has so many micro-batches of rows, a row counting once for each layer that it goes up.
_MICRO_BATCHES: Final = 4
#: One partition of so many commits in a cycle, beside those that are full, so that no cycle waits for all of them.
_SHARE: Final = 4


@dataclass(frozen=True)
class Commit:
    """What goes into the state of a partition, and the offset of the last record that is then done with.

    has_rows: the engine's changes are among it, and it wants to know when they are stored
    """

    partition: Partition
    changes: list[Change]
    has_rows: bool
    offset: int


@dataclass
class Cycle:
    """What one cycle has done in memory and must now make durable.

    deliveries: outputs and messages   latest: for topic `latest`, where what is sent last counts
    known: messages whose peer embeddings are in their rows here already
    written: when the records behind the embeddings were written, f8[B]; not a number where that is not known
    is_cut: more could be computed at once   seconds: that it took
    """

    deliveries: list[Delivery] = field(default_factory=list)
    latest: list[Delivery] = field(default_factory=list)
    known: list[Delivery] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    received: dict[int, ReceivedCounts] = field(default_factory=dict)
    written: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    embeddings: int = 0
    alerts: int = 0
    forced: int = 0
    stale: int = 0
    is_cut: bool = False
    pending: int = 0
    seconds: float = 0.0


class Computing:
    """Makes cycles of what waits in the partitions of this worker."""

    def __init__(
        self,
        topology: Topology,
        engine: Engine,
        encoder: OutputEncoder,
        latest: LatestWriter,
        max_commit_bytes: int,
        traces: Traces,
    ) -> None:
        """traces: is told which trace interactions belong to; the encoder tells it on"""
        self._engine = engine
        self._encoder = encoder
        self.latest = latest
        self._limit = topology.serving.micro_batch
        self._partitions = topology.kafka.partitions
        # Bytes of a commit that may be there before one more pass is computed.
        self._room = int(RECEIVED_SHARE * max_commit_bytes)
        # Peer embeddings for this worker's own nodes: in their rows, and not sent yet.
        self._held: list[PeerEmbeddings] = []
        self._written = Written()
        self._traces = traces

    def forget(self) -> None:
        """Drop what was not sent: what is stored does not say that it was computed."""
        self._held.clear()
        self.latest.forget()

    def work(
        self, owned: Mapping[int, Partition], may_serve: Collection[int], expected: Collection[Source], *, backlog: bool
    ) -> Cycle:
        """One cycle.

        may_serve: the partitions for which anything is computed   expected: all sources of the deployment
        backlog: peer embeddings that rows wait for may simply not have been read yet
        """
        begun, cycle = time.perf_counter(), Cycle()
        waiting = [(partition.receiver, tuple(partition.waiting)) for partition in owned.values()]
        cycle.received = receive(self._engine, waiting, self._room, expected, self._written, self._traces)
        for number, received in cycle.received.items():
            owned[number].note_received(received.records)
        watermarks = {number: owned[number].receiver.watermark(expected) for number in may_serve}
        computed, cycle.is_cut = self._compute(owned, watermarks, backlog)
        cycle.deliveries = self._encoder.encode(computed)
        cycle.embeddings, cycle.alerts = len(computed.embeddings), len(computed.alerts)
        cycle.written = self._written.times(computed.embeddings.origin)
        cycle.forced, cycle.stale = computed.forced, computed.stale
        if not cycle.is_cut and self.latest.is_due(time.monotonic()):
            cycle.latest += self.latest.again()
        self.take(cycle, self._due(owned))
        cycle.seconds = time.perf_counter() - begun
        return cycle

    def take(self, cycle: Cycle, partitions: Iterable[Partition], *, always: bool = False) -> Cycle:
        """Add to a cycle what these partitions have to commit; always: how far they are, in any case.

        With any commit goes all that was held, as it must be in the log before a state says that it was computed. So
        does what its changed nodes are now.
        """
        now, engine, changed = time.monotonic(), self._engine, []
        cycle.pending = engine.pending()
        for partition in partitions:
            changes = engine.take_changes(partition.number)
            partition.changes_bytes, progress = 0, partition.progress
            if changes and progress.model > engine.version:
                self.latest.miss(partition.number)
            elif changes:
                changed.append(partition.number)
            elif not (always or partition.is_due(now) or self.latest.has_news(partition.number)):
                continue
            progress.waiting = engine.waiting(partition.number, progress.passed)
            partition.taken_offset, partition.committed_at = progress.offset, now
            rows = [*changes, *self.latest.account(partition.number), *partition.receiver.account()]
            cycle.commits.append(Commit(partition, rows, bool(changes), progress.offset))
        cycle.latest += self.latest.changed(changed)
        if cycle.commits and self._held:
            held, self._held = self._held, []
            cycle.known += self._encoder.messages(_by_layer(held))
        return cycle

    def _due(self, owned: Mapping[int, Partition]) -> list[Partition]:
        """Those that commit in this cycle: all that are full, and of the others the ones that have waited longest."""
        now, full, old = time.monotonic(), [], []
        for number, partition in owned.items():
            partition.changes_bytes = self._engine.changes_bytes(number)
            if partition.waiting or partition.changes_bytes > self._room:
                full.append(partition)
            elif partition.is_due(now) or self.latest.has_news(number):
                old.append(partition)
        old.sort(key=lambda partition: partition.committed_at)
        return full + old[: -(-len(owned) // _SHARE)]

    def _compute(self, owned: Collection[int], watermarks: Mapping[int, float], backlog: bool) -> tuple[Computed, bool]:
        """What is ready now, pass after pass up to some micro-batches of rows, and whether there is more.

        A peer embedding for a node of this worker enters its row at once, so that the next layer need not wait until it
        comes back through Kafka, and is held. It is sent all the same: a crash may come between the commits of the two
        partitions. Where a commit has no room for it, it takes the way through the log.
        """
        passes: list[Computed] = []
        rows, most = 0, _MICRO_BATCHES * self._limit
        while True:
            found = self._engine.compute(watermarks, self._limit, backlog=backlog)
            passes.append(found)
            rows += found.rows
            is_more = found.is_cut
            if any(map(self._is_full, owned)):
                break
            is_more |= bool(found.peer_embeddings)
            passes[-1] = replace(
                found,
                peer_embeddings=[self._fill_own(peer_embeddings, owned) for peer_embeddings in found.peer_embeddings],
            )
            if rows >= most or not is_more:
                break
        return Computed.concatenate(passes), is_more

    def _is_full(self, number: int) -> bool:
        return self._engine.changes_bytes(number) > self._room

    def _fill_own(self, peer_embeddings: PeerEmbeddings, owned: Collection[int]) -> PeerEmbeddings:
        """The peer embeddings that are for other workers; the rest is in its rows, and held."""
        owners = partitions_of(peer_embeddings.node.tolist(), self._partitions).astype(np.int32)
        is_owned = np.zeros(self._partitions, np.bool_)
        is_owned[list(owned)] = True
        mine = is_owned[owners]
        if mine.any():
            own = peer_embeddings if mine.all() else peer_embeddings.take(mine)
            self._engine.fill(owners[mine], own)
            self._held.append(own)
        return peer_embeddings.take(~mine)


def _by_layer(several: Iterable[PeerEmbeddings]) -> list[PeerEmbeddings]:
    """The same peer embeddings, those of a layer together."""
    layers: dict[int, list[PeerEmbeddings]] = {}
    for peer_embeddings in several:
        layers.setdefault(peer_embeddings.layer, []).append(peer_embeddings)
    return [PeerEmbeddings.concatenate(found) for found in layers.values()]
