"""Re-encoding: after another model has taken over, all rows get the memos that this model would have given them.

Memos travel as always, on `propagation`, and carry the version of the model, so that they replace older ones and a
repeat changes nothing. It goes in rounds, because events flow meanwhile. When all partitions have switched, what the
old model has made lies before the present end of the log, L: reading up to there makes all memos of layer 1 anew, and
those that come later are the new model's own. What rests on them is the new model's own once they are received; so
each further layer takes one more round.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from stream_tgat.agents.outputs import OutputEncoder
from stream_tgat.agents.releases import Ready, newest_that_can_serve, packet_layout
from stream_tgat.engine import Memos
from stream_tgat.errors import ReleaseError, TopicError
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.renewal.memos import Reencoder, is_interactions
from stream_tgat.renewal.partitions import partition_progress
from stream_tgat.storage.stores import RocksStore
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import STALL_S, lone_consumer, read_topic, topic_range
from stream_tgat.training.promotion import REENCODED_KEY, no_release, promotions_in, reencoded_in
from stream_tgat.wire import ReencodedRecord
from stream_tgat.wire.packets import Source, SourceTopic

MEMOS_PER_S: Final = 20_000
_POLL_MS: Final = 200
_LOOK_S: Final = 1.0
_PACKET_BYTES: Final = 65_536
_SEND_TIMEOUT_S: Final = 60.0


class SupersededError(ReleaseError):
    """Another model has taken over meanwhile, and the memos of this one are wanted no more."""


@dataclass(frozen=True)
class Told:
    """Who is told how it goes.

    on_stage: in words   on_read: interactions and nodes read, and in all   on_sent: memos sent so far
    on_wait: each second while it waits for the workers.   What any of them raises ends it.
    """

    on_stage: Callable[[str], None] = lambda _: None
    on_read: Callable[[int, int], None] = lambda *_: None
    on_sent: Callable[[int], None] = lambda _: None
    on_wait: Callable[[], None] = lambda: None


def owed(topology: Topology) -> Ready | None:
    """The model that serves, if rows may still hold memos of another; None if there is nothing to do.

    With one layer no memo has weights in it; and the first model that was ever promoted finds no others.
    """
    records = list(read_topic(topology, topology.topics.models))
    found = promotions_in(records)
    if not found:
        raise no_release(topology)
    ready, refusals = newest_that_can_serve(topology, found)
    if ready is None:
        raise refusals[0]
    done = reencoded_in(records)
    if ready.model.config.layers == 1 or ready.version == found[0].version or (done and done.version >= ready.version):
        return None
    return ready


def reencode(
    topology: Topology, ready: Ready, memos_per_s: float = MEMOS_PER_S, told: Told | None = None
) -> ReencodedRecord:
    """Read the log under these weights, and send the memos of all rows that are kept; returns when all are in the log.

    Waits for the workers to switch to the model, however long that takes. Raises SupersededError when another model
    takes over. Memory is bounded by serving.cache_bytes, as a worker's; the rest is on the disk, in a folder of its own
    below serving.data_dir that is removed afterwards.
    """
    use_one_thread()
    topology.serving.data_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="reencoding-", dir=topology.serving.data_dir))
        store = stack.enter_context(closing(RocksStore(Path(folder) / "nodes")))
        log = stack.enter_context(closing(_Log(topology)))
        watch = stack.enter_context(closing(_Watch(topology, ready)))
        sender = stack.enter_context(closing(_Sender(topology, ready, memos_per_s)))
        told = told or Told()
        reencoder = Reencoder(topology, ready.model, ready.version, log.first, store)
        work = _Work(log, watch, sender, reencoder, told, topology.time.clock == "wall")
        work.run(ready.model.config.layers)
        is_cut = any(first for source, first in log.first.items() if is_interactions(source))
        record = ReencodedRecord(
            version=ready.version,
            interactions=reencoder.interactions,
            memos=sender.count,
            inexact=sender.count if is_cut else 0,
        )
        sender.say(topology.topics.models, record)
        return record


@dataclass
class _Work:
    """The rounds of one re-encoding."""

    log: "_Log"
    watch: "_Watch"
    sender: "_Sender"
    reencoder: Reencoder
    told: Told
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
        told.on_stage("sending memos")
        self._send(self.reencoder.kept())
        for _ in range(layers - 2):
            watch.wait("waiting for the workers to take them", sender.is_received, told)
            told.on_stage("sending what rested on older memos")
            self._send(self._read_to_the_end())
        sender.flush()

    def _read_to_the_end(self) -> Iterator[Memos]:
        """Read up to the present end of the log; yields the memos that come of it."""
        log, reencoder, told = self.log, self.reencoder, self.told
        now, ends = time.time(), log.ends()
        total, progress = sum(ends.values()), time.monotonic()
        while True:
            batch, positions = log.poll(reencoder.free(), reencoder.max_records)
            at_end = log.at_end(positions, ends, now, by_the_clock=self.by_the_clock)
            yield from reencoder.take(batch, at_end, time.time())
            told.on_read(min(sum(positions.values()), total), total)
            if all(positions[source] >= end for source, end in ends.items()):
                return
            self._check()
            if batch:
                progress = time.monotonic()
            elif time.monotonic() - progress > STALL_S:
                raise TopicError(f"the log gave nothing for {STALL_S:.0f} s before its end")

    def _send(self, memos: Iterable[Memos]) -> None:
        for some in memos:
            for _ in self.sender.send(some):
                self._check()
                self.told.on_sent(self.sender.count)

    def _check(self) -> None:
        if time.monotonic() - self._checked_at > _LOOK_S:
            self.watch.check()
            self._checked_at = time.monotonic()


class _Log:
    """`interactions` and `nodes`, from where they begin."""

    def __init__(self, topology: Topology) -> None:
        topics = {SourceTopic.INTERACTIONS: topology.topics.interactions}
        if topology.graph.node_features:
            topics[SourceTopic.NODES] = topology.topics.nodes
        self.first: dict[Source, int] = {}
        self._places: dict[TopicPartition, Source] = {}
        for topic, name in topics.items():
            for partition, (first, _) in topic_range(topology, name).items():
                self.first[Source(topic, partition)] = first
                self._places[TopicPartition(name, partition)] = Source(topic, partition)
        # Little at a time, so that partitions advance together and little waits for those behind.
        self._consumer = lone_consumer(topology, fetch_bytes=1 << 20)
        self._positions = dict(self.first)
        self._free: set[Source] = set()

    def close(self) -> None:
        self._consumer.close()

    def ends(self) -> dict[Source, int]:
        """The offset that the next record of each source will get."""
        return {self._places[place]: end for place, end in self._consumer.end_offsets(list(self._places)).items()}

    def poll(self, free: set[Source], at_most: int) -> tuple[dict[Source, list[Any]], dict[Source, int]]:
        """Records of the sources that are free, in offset order, and the next offset of every source after them.

        Offsets that hold no record, as transactions and compaction leave them, are passed without one.
        """
        if free != self._free:
            # Not paused and resumed: the client may then keep for ever what it had fetched of a partition.
            places = {place: source for place, source in self._places.items() if source in free}
            self._consumer.assign(list(places))
            for place, source in places.items():
                self._consumer.seek(place, self._positions[source])
            self._free = set(free)
        polled = self._consumer.poll(timeout_ms=_POLL_MS, max_records=at_most)
        self._positions |= {
            self._places[place]: self._consumer.position(place) for place in self._consumer.assignment()
        }
        return {self._places[place]: records for place, records in polled.items() if records}, dict(self._positions)

    @staticmethod
    def at_end(
        positions: Mapping[Source, int], ends: Mapping[Source, int], now: float, *, by_the_clock: bool
    ) -> dict[Source, float]:
        """The sources that are at their end, and the time until which that is known.

        Interactions may still come that are older, unless the deployment goes by the clock.
        """
        return {
            source: now
            for source, position in positions.items()
            if position >= ends[source] and (by_the_clock or not is_interactions(source))
        }


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

    def wait(self, what: str, condition: Callable[[KafkaConsumer], bool], told: Told) -> None:
        """Wait until a condition holds, which is asked with a consumer of its own."""
        told.on_stage(what)
        while not condition(self._consumer):
            self.check()
            told.on_wait()
            time.sleep(_LOOK_S)


class _Sender:
    """Sends memos to the owners of their rows, so many in a second at most. count: how many were sent"""

    def __init__(self, topology: Topology, ready: Ready, memos_per_s: float) -> None:
        self._topology = topology
        self._topic = topology.topics.propagation
        self._rate = memos_per_s
        self._layout = packet_layout(topology, ready.model)
        partitions = len(topic_range(topology, self._topic))
        self._encoder = OutputEncoder(topology, self._layout, {self._topic: partitions})
        self._partitions = partitions
        self._producer = KafkaProducer(
            bootstrap_servers=topology.kafka.bootstrap_servers.split(","),
            acks="all",
            linger_ms=0,
            max_request_size=2 << 20,
        )
        self._under_way: list[tuple[int, Any]] = []
        self._reached: dict[int, int] = {}
        self._began: float | None = None
        self.count = 0

    def close(self) -> None:
        self._producer.close(timeout=5)

    def send(self, memos: Memos) -> Iterator[int]:
        """Send these; yields how many, some at a time."""
        at_once = max(1, _PACKET_BYTES // self._layout.memo[memos.layer].itemsize) * self._partitions
        for first in range(0, len(memos), at_once):
            some = memos.take(slice(first, first + at_once))
            for delivery in self._encoder.messages([some]):
                for record in delivery.records:
                    sent = self._producer.send(delivery.topic, value=record.value, partition=delivery.partition)
                    self._under_way.append((delivery.partition, sent))
            self.flush()
            self.count += len(some)
            self._rest()
            yield len(some)

    def flush(self) -> None:
        """Wait until the brokers have all that was sent."""
        try:
            for partition, sent in self._under_way:
                self._reached[partition] = sent.get(timeout=_SEND_TIMEOUT_S).offset
        except KafkaError as problem:
            raise TopicError(f"memos could not be sent to {self._topic!r}: {problem!r}") from problem
        self._under_way.clear()

    def is_received(self, consumer: KafkaConsumer) -> bool:
        """Whether all that was sent is in the state of the partitions."""
        progress = partition_progress(self._topology, consumer)
        return all(
            partition in progress and progress[partition].offset >= offset
            for partition, offset in self._reached.items()
        )

    def say(self, topic: str, record: ReencodedRecord) -> None:
        """Write down that it is done."""
        try:
            self._producer.send(
                topic,
                key=REENCODED_KEY,
                value=record.model_dump_json().encode(),
                headers=[("content-type", b"application/json")],
                partition=0,
            ).get(timeout=_SEND_TIMEOUT_S)
        except KafkaError as problem:
            raise TopicError(f"memos were sent, but {topic!r} does not take the note of it: {problem!r}") from problem

    def _rest(self) -> None:
        self._began = time.monotonic() if self._began is None else self._began
        ahead = self.count / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)
