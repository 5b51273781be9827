"""Re-encoding: after another model has taken over, all rows get the peer embeddings that this model would have given
them.

Peer embeddings travel as always, on `propagation`, and carry the version of the model, so that they replace older ones
and a repeat changes nothing. It goes in rounds, because events flow meanwhile. When all partitions have switched, what
the old model has made lies before the present end of the log, L: reading up to there makes all peer embeddings of layer
1 anew, and those that come later are the new model's own. What rests on them is the new model's own once they are
received; so each further layer takes one more round.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafka import KafkaConsumer, TopicPartition

from stream_tgat.backlog.committed import partition_progress
from stream_tgat.engine import PeerEmbeddings
from stream_tgat.errors import ReleaseError, StreamTgatError, TopicError
from stream_tgat.message_passing.release import Ready, newest_that_can_serve
from stream_tgat.renewal.reencoder import Reencoder, is_interactions
from stream_tgat.renewal.sending import PeerEmbeddingSender
from stream_tgat.renewal.source_log import SourceLog
from stream_tgat.storage.stores import RocksStore
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import STALL_S, lone_consumer, read_topic
from stream_tgat.training.promotion import no_release, promotions_in, reencoded_in
from stream_tgat.wire import ReencodedRecord

_LOOK_S: Final = 1.0


class SupersededError(ReleaseError):
    """Another model has taken over meanwhile, and the peer embeddings of this one are wanted no more."""


@dataclass(frozen=True)
class ReencodingCallbacks:
    """Who is told how it goes.

    on_stage: in words   on_read: interactions and nodes read, and in all   on_sent: peer embeddings sent so far
    on_wait: each second while it waits for the workers.   What any of them raises ends it.
    """

    on_stage: Callable[[str], None] = lambda _: None
    on_read: Callable[[int, int], None] = lambda *_: None
    on_sent: Callable[[int], None] = lambda _: None
    on_wait: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class Owed:
    """ready: the model that serves, if rows may still hold peer embeddings of another; None if there is nothing to do

    serves: whether anything does   refused: why newer promotions cannot, or all of them, the newest first; that may
    pass, as when a store answers again
    """

    ready: Ready | None
    serves: bool
    refused: tuple[StreamTgatError, ...] = ()


def look(topology: Topology) -> Owed:
    """Whose peer embeddings are owed.

    With one layer no peer embedding has weights in it; and the first model that was ever promoted finds no others.
    """
    records = list(read_topic(topology, topology.topics.models))
    found = promotions_in(records)
    if not found:
        return Owed(None, serves=False)
    ready, refusals = newest_that_can_serve(topology, found)
    if ready is None:
        return Owed(None, serves=False, refused=tuple(refusals))
    done = reencoded_in(records)
    if ready.model.config.layers == 1 or ready.version == found[0].version or (done and done.version >= ready.version):
        return Owed(None, serves=True, refused=tuple(refusals))
    return Owed(ready, serves=True, refused=tuple(refusals))


def owed(topology: Topology) -> Ready | None:
    """As `look`; raises ReleaseError where nothing can serve."""
    found = look(topology)
    if not found.serves:
        raise found.refused[0] if found.refused else no_release(topology)
    return found.ready


def reencode(
    topology: Topology,
    ready: Ready,
    peer_embeddings_per_s: float | None = None,
    told: ReencodingCallbacks | None = None,
) -> ReencodedRecord:
    """Read the log under these weights, and send the peer embeddings of all rows that are kept; returns when all are in
    the log.

    Waits for the workers to switch to the model, however long that takes. Raises SupersededError when another model
    takes over. Memory is bounded by serving.cache_bytes, as a worker's; the rest is on the disk, in a folder of its own
    below serving.data_dir that is removed afterwards.
    peer_embeddings_per_s: at most; None for retrain.reencoding_rate of the topology
    """
    topology.serving.data_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reencoding-", dir=topology.serving.data_dir))
        store = stack.enter_context(closing(RocksStore(Path(folder) / "nodes")))
        log = stack.enter_context(closing(SourceLog(topology)))
        watch = stack.enter_context(closing(_Watch(topology, ready)))
        rate = topology.retrain.reencoding_rate if peer_embeddings_per_s is None else peer_embeddings_per_s
        sender = stack.enter_context(closing(PeerEmbeddingSender(topology, ready.model, rate)))
        told = told or ReencodingCallbacks()
        reencoder = Reencoder(topology, ready.model, ready.version, log.first, store)
        work = _Work(log, watch, sender, reencoder, told, topology.time.clock == "wall")
        work.run(ready.model.config.layers)
        is_cut = any(first for source, first in log.first.items() if is_interactions(source))
        record = ReencodedRecord(
            version=ready.version,
            interactions=reencoder.interactions,
            peer_embeddings=sender.count,
            inexact=sender.count if is_cut else 0,
        )
        sender.say(topology.topics.models, record)
        return record


@dataclass
class _Work:
    """The rounds of one re-encoding."""

    log: SourceLog
    watch: "_Watch"
    sender: PeerEmbeddingSender
    reencoder: Reencoder
    told: ReencodingCallbacks
    by_the_clock: bool
    _checked_at: float = field(default_factory=time.monotonic)

    def run(self, layers: int) -> None:
        told, sender, watch = self.told, self.sender, self.watch
        told.on_stage("reading the log")
        for _ in self._read_to_the_end():
            pass
        watch.wait("waiting for the workers to switch", watch.has_switched, told)
        told.on_stage("reading what came meanwhile")
        for _ in self._read_to_the_end():
            pass
        told.on_stage("sending peer embeddings")
        self._send(self.reencoder.kept())
        for _ in range(layers - 2):
            watch.wait("waiting for the workers to take them", sender.is_received, told)
            told.on_stage("sending what rested on older peer embeddings")
            self._send(self._read_to_the_end())
        sender.flush()

    def _read_to_the_end(self) -> Iterator[PeerEmbeddings]:
        """Read up to the present end of the log; yields the peer embeddings that come of it."""
        log, reencoder, told = self.log, self.reencoder, self.told
        now, ends = time.time(), log.ends()
        total, progress, reached = sum(ends.values()), time.monotonic(), -1
        while True:
            batch, positions = log.poll(reencoder.free(), reencoder.max_records)
            at_end = log.at_end(positions, ends, now, by_the_clock=self.by_the_clock)
            yield from reencoder.take(batch, at_end, time.time())
            told.on_read(min(sum(positions.values()), total), total)
            if all(positions[source] >= end for source, end in ends.items()):
                return
            self._check()
            # By position: a long transaction that was taken back is passed without a record.
            before, reached = reached, sum(positions.values())
            if reached > before:
                progress = time.monotonic()
            elif time.monotonic() - progress > STALL_S:
                raise TopicError(f"the log gave nothing for {STALL_S:.0f} s before its end")

    def _send(self, peer_embeddings: Iterable[PeerEmbeddings]) -> None:
        for some in peer_embeddings:
            for _ in self.sender.send(some):
                self._check()
                self.told.on_sent(self.sender.count)

    def _check(self) -> None:
        if time.monotonic() - self._checked_at > _LOOK_S:
            self.watch.check()
            self._checked_at = time.monotonic()


class _Watch:
    """Looks at the workers and at `models` while events go on."""

    def __init__(self, topology: Topology, ready: Ready) -> None:
        self._topology = topology
        self._version = ready.version
        self._consumer = lone_consumer(topology)
        self._models = TopicPartition(topology.topics.models, 0)
        self._end = self._consumer.end_offsets([self._models])[self._models]

    def close(self) -> None:
        self._consumer.close()

    def check(self) -> None:
        """Raises SupersededError if another model serves now."""
        end = self._consumer.end_offsets([self._models])[self._models]
        if end == self._end:
            return
        self._end = end
        found = promotions_in(read_topic(self._topology, self._models.topic))
        ready, _ = newest_that_can_serve(self._topology, found)
        if ready is not None and ready.version > self._version:
            raise SupersededError(f"model {ready.version} has taken over from model {self._version}")

    def has_switched(self, consumer: KafkaConsumer) -> bool:
        """Whether no partition is served by an older model any more."""
        progress = partition_progress(self._topology, consumer)
        return all(each.model >= self._version for each in progress.values())

    def wait(self, what: str, condition: Callable[[KafkaConsumer], bool], told: ReencodingCallbacks) -> None:
        """Wait until a condition holds, which is asked with a consumer of its own."""
        told.on_stage(what)
        while not condition(self._consumer):
            self.check()
            told.on_wait()
            time.sleep(_LOOK_S)
