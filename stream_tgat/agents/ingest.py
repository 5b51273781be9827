"""The agent that reads what users produce: one cycle after the other, each sent, acknowledged, and only then the next.

All partitions of `interactions` and `nodes` of this worker take part in a cycle. A cycle sends at most one packet to
each partition of `propagation`; its source records are acknowledged when the brokers have all of them, so whatever
happens between, the next owner sends the same blocks again and receivers skip what they have.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from faust.types import TP

from stream_tgat.agents.dead_letters import deliver_dead_letters, log_refused
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.registry_wait import RegistryWait
from stream_tgat.agents.throttle import Throttle
from stream_tgat.errors import UnreachableRegistryError
from stream_tgat.message_passing.packing import IngestedSource, Packed, Packer
from stream_tgat.message_passing.progress import NOTHING
from stream_tgat.message_passing.source_roles import SourceRole, source_topics
from stream_tgat.message_passing.state_identity import begin_again, is_of_another, made_anew
from stream_tgat.message_passing.watermarks import NodesClock, SourceClock
from stream_tgat.topology import Topology
from stream_tgat.transport.application import Application
from stream_tgat.transport.drain import drain
from stream_tgat.transport.outbox import Delivery, OutgoingRecord
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.packets import MOST_PARTITIONS, Source, SourceTopic
from stream_tgat.wire.traces import TRACES

_log = logging.getLogger(__name__)

#: How often it is looked whether a source may go on, or has come to its end, where no records come: while one is held
#: back, while somebody waits for the time of a source, and while nothing happens at all.
TICK_S: Final = 0.05
WAITED_TICK_S: Final = 0.01
REST_TICK_S: Final = 0.2
#: Cycles' worth of records of one source that may wait before it is no longer fetched.
_WAITING_CYCLES: Final = 2
#: The same in bytes, as records may be large.
_WAITING_BYTES: Final = 8 * 2**20
_WINDOW_PAUSE_S: Final = 0.02
#: A source is idle only if a fetch has seen its end this recently: otherwise it may have what nobody could read.
_END_IS_FRESH_S: Final = 1.0


class Downstream(Protocol):
    """What ingest must know of the propagation partitions that this worker owns."""

    @property
    def pending(self) -> int:
        """Rows of this worker that wait."""

    @property
    def is_computing(self) -> bool:
        """Whether rows are ready and only wait for their turn."""

    @property
    def expected(self) -> tuple[Source, ...]:
        """All sources of the deployment."""

    @property
    def newest(self) -> float:
        """The largest time of an event that the partitions of this worker were told of, whoever owns it.

        Plus infinity where they are told nothing.
        """

    def source_watermarks(self) -> Mapping[Source, float]:
        """The watermark of each source as received, the smallest over the partitions of this worker."""

    #: Called when the partitions of this worker have been told of a newer event.
    on_newer_event: Callable[[], None]

    def sent(self, partition: int, offset: int, value: bytes, headers: Headers = ()) -> None:
        """Take note of a record of `propagation` that the brokers have acknowledged."""


class Ingest:
    """Agent on `interactions` and `nodes`, and listener for their partitions."""

    def __init__(
        self,
        app: Application,
        topology: Topology,
        packer: Packer,
        throttle: Throttle,
        downstream: Downstream,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._topology = topology
        self._packer = packer
        self._throttle = throttle
        self._downstream = downstream
        self._metrics = metrics
        self._topics = source_topics(topology)
        self._names = {role: name for name, role in self._topics.items()}
        self._sources: dict[Source, IngestedSource] = {}
        self._waiting: dict[Source, deque[Any]] = {}
        self._starts: dict[TP, int] = {}
        # When a record of each source was there last, or reading began: monotonic seconds.
        self._heard_at: dict[Source, float] = {}
        self._paused: set[TP] = set()
        self._free: set[Source] = set()
        self._looked_at = -math.inf
        self._rests = False
        # When the last record of each source that was sent on was written: unix seconds. And when sources were held.
        self._written: dict[Source, float] = {}
        self._held_at: float | None = None
        # The largest time of an event that was sent.
        self._newest = NOTHING
        self._cycling = asyncio.Lock()
        self._registry_wait = RegistryWait()

    # Partitions come and go

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Begin with these sources, where the group left off; a source never read begins where its log begins."""
        mine = [tp for tp in tps if tp.topic in self._topics]
        if not mine:
            return
        earliest = {
            TP(t.topic, t.partition): at for t, at in (await self._app.consumer.earliest_offsets(*mine)).items()
        }
        committed = {topic: await self._app.offsets.committed(topic) for topic in {tp.topic for tp in mine}}
        for topic in committed:
            await self._check_notes(topic)
        lateness, is_live = self._topology.time.allowed_lateness_s, self._topology.time.clock == "wall"
        for tp in mine:
            # If retention was faster than we, the log begins after the committed offset; receivers that miss what lay
            # between refuse the gap.
            start = max(committed[tp.topic].get(tp.partition, 0), earliest.get(tp) or 0)
            source = self._source(tp)
            clock = SourceClock(lateness, is_live) if source.topic is SourceTopic.INTERACTIONS else NodesClock()
            self._starts[tp] = start
            self._sources[source] = IngestedSource(clock, start)
            self._waiting[source] = deque()
            self._heard_at[source] = time.monotonic()

    async def _check_notes(self, topic: str) -> None:
        """Raise LostDataError if the group's offsets are of another topic of this name, or of another `propagation`."""
        expected = self._app.commit_notes.get(topic, "")
        for note in (await self._app.offsets.notes(topic)).values():
            if is_of_another(note, expected):
                (read, *_), (now, *_) = note.split(), expected.split()
                way_on = begin_again(self._topology)
                if read != now:
                    raise made_anew(topic, "of which the consumer group has read", way_on)
                raise made_anew(self._topology.topics.propagation, f"to which {topic!r} has been sent on", way_on)

    async def on_revoked(self, tps: frozenset[TP]) -> None:  # noqa: ARG002
        """Finish the cycle under way and forget everything: all of it is assigned anew."""
        async with self._cycling:
            self._forget()

    def _forget(self) -> None:
        """Hand on nothing more: a block that comes after one that was not sent would hide that it is missing."""
        self._sources.clear()
        self._waiting.clear()
        self._starts.clear()
        self._heard_at.clear()
        self._written.clear()
        self._paused.clear()
        self._free.clear()

    def start_offset(self, tp: TP) -> int | None:
        """Where reading a source starts."""
        return self._starts.get(tp)

    def places(self) -> dict[TP, tuple[int, float | None]]:
        """How far each source is sent on: the next offset, and when the record before it was written, where known."""
        return {
            self._tp(source): (state.position, self._written.get(source)) for source, state in self._sources.items()
        }

    # The agent

    async def run(self, stream: Any) -> None:
        """Read for ever."""
        limit = min(self._packer.max_interactions, self._packer.max_nodes)
        wake = stream.channel.queue.wake
        self._downstream.on_newer_event = lambda: wake() if self._rests else None
        async for batch in drain(stream, limit, idle_s=self._tick_s, busy=self._is_busy):
            # A rebalance must not wait for records that wait for their turn.
            self._app.abandon(batch)
            for message in batch:
                waiting = self._waiting.get(self._source(message.tp))
                if waiting is not None:
                    waiting.append(message)
            # More is taken from the stream only when what is here has been sent, so that little waits here.
            first = True
            while (first or self._is_busy()) and not self._app.rebalancing and not self._app.should_stop:
                if self._throttle.window_is_full:
                    await self._stall()
                    continue
                await self._go_on()
                first = False

    def _tick_s(self) -> float:
        """How soon to look again if nothing comes."""
        self._rests = not self._is_waited_for()
        if not self._rests:
            return WAITED_TICK_S
        return REST_TICK_S if self._held_at is None else TICK_S

    async def _stall(self) -> None:
        """Wait until there is room in the window again, and count it."""
        began = time.monotonic()
        while self._throttle.window_is_full and not self._app.rebalancing and not self._app.should_stop:
            await asyncio.sleep(_WINDOW_PAUSE_S)
        self._metrics.window_stalls += 1
        self._metrics.throttled_s["window"] += time.monotonic() - began

    def _is_busy(self) -> bool:
        return any(self._waiting[source] for source in self._free if source in self._waiting)

    async def _go_on(self) -> None:
        """One cycle; after one that failed there is none before the sources are assigned anew."""
        async with self._cycling:
            try:
                await self._cycle()
            except BaseException:
                self._forget()
                raise

    async def _cycle(self) -> None:
        # A look costs more the more partitions there are, so without records it is taken once a tick.
        now, tick = time.monotonic(), WAITED_TICK_S if self._is_waited_for() else TICK_S
        if not any(self._waiting.values()) and now - self._looked_at < tick:
            return
        self._looked_at = now
        self._free = self._sources_that_may_go_on()
        batch = self._choose()
        if self._packer.lacks(batch) and not await self._have_schemas(batch):
            for source, records in batch.items():
                self._waiting[source].extendleft(reversed(records))
            return
        caught_up, idle = self._caught_up(batch), self._idle(batch)
        if not (batch or caught_up or idle):
            return
        packed = self._packer.pack(batch, self._sources, caught_up, time.time(), idle)
        for source, left in packed.left.items():
            self._waiting[source].extendleft(reversed(left))
            batch[source] = batch[source][: -len(left)]
        await self._send(packed)
        self._newest = max(self._newest, packed.newest)
        for source, end in packed.ends.items():
            self._sources[source].position = end
            self._written[source] = batch[source][-1].timestamp
        for source, watermark in packed.watermarks.items():
            self._sources[source].announced = watermark
            self._sources[source].is_idle = source in idle
        for source, messages in batch.items():
            if messages:
                self._app.acknowledge_to(self._tp(source), messages[-1].offset)
        self._count(packed)

    async def _have_schemas(self, batch: Mapping[Source, list[Any]]) -> bool:
        """Ask the schema registry for what these records need; False, after a pause, while it does not answer."""
        try:
            await asyncio.to_thread(self._packer.fetch, batch)
        except UnreachableRegistryError as problem:
            await self._registry_wait.pause(problem)
            # Waiting on purpose is not what the watchdog looks for.
            self._app.progress()
            return False
        self._registry_wait.over()
        return True

    def _sources_that_may_go_on(self) -> set[Source]:
        watermarks = dict(self._downstream.source_watermarks())
        for source, state in self._sources.items():
            watermarks[source] = max(state.announced, watermarks.get(source, state.announced))
        downstream = self._downstream
        free = self._throttle.free(
            self._sources, watermarks, downstream.expected, downstream.pending, downstream.is_computing
        )
        is_held, now = len(free) < len(self._sources), time.monotonic()
        if is_held:
            # Held on purpose, which is not what the watchdog looks for.
            self._app.progress()
            self._metrics.throttled_s["pending"] += now - (now if self._held_at is None else self._held_at)
        self._held_at = now if is_held else None
        self._pause([source for source in self._sources if source not in free])
        return free

    def _pause(self, held: Iterable[Source]) -> None:
        """Stop fetching held sources that have enough waiting; go on with all others."""
        wanted = {self._tp(source) for source in held if self._has_enough_waiting(source)}
        if self._app.rebalancing or wanted == self._paused:
            return
        self._app.consumer.resume_partitions(self._paused - wanted)
        self._app.consumer.pause_partitions(wanted - self._paused)
        self._paused = wanted

    def _has_enough_waiting(self, source: Source) -> bool:
        waiting = self._waiting[source]
        return (
            len(waiting) >= _WAITING_CYCLES * self._packer.max_interactions
            or sum(len(message.value or b"") for message in waiting) >= _WAITING_BYTES
        )

    def _choose(self) -> dict[Source, list[Any]]:
        """The records of the next cycle: the sources furthest behind first, and room for each."""
        ready = [source for source in self._free if self._waiting[source]]
        ready.sort(key=lambda source: self._sources[source].announced)
        room = {SourceTopic.INTERACTIONS: self._packer.max_interactions, SourceTopic.NODES: self._packer.max_nodes}
        if len({source.topic for source in ready}) > 1:
            room = {topic: max(1, size // 2) for topic, size in room.items()}
        chosen: dict[Source, list[Any]] = {}
        for index, source in enumerate(ready):
            left = sum(other.topic is source.topic for other in ready[index:])
            waiting = self._waiting[source]
            count = min(len(waiting), -(-room[source.topic] // left))
            if count:
                room[source.topic] -= count
                chosen[source] = [waiting.popleft() for _ in range(count)]
        return chosen

    def _is_waited_for(self) -> bool:
        """Whether anybody waits for the time of a source: what is more, nobody is told while nothing happens.

        Rows wait until all sources are at their time, whatever worker has them: all owners are told of the newest.
        """
        newest, by_the_clock = max(self._newest, self._downstream.newest), self._topology.time.clock == "wall"
        # Without the clock no source gets further by being looked at, but for node features at their end.
        return (by_the_clock and self._downstream.pending > 0) or any(
            state.announced == NOTHING or state.announced < newest
            for source, state in self._sources.items()
            if by_the_clock or source.topic is SourceTopic.NODES
        )

    def _caught_up(self, batch: Mapping[Source, list[Any]]) -> dict[Source, float]:
        """The sources whose end is reached once `batch` is sent, where that may raise their watermark, and as of when.

        All of them or none: a packet costs the same however many are in it.
        """
        if not batch and not self._is_waited_for():
            return {}
        by_the_clock = self._topology.time.clock == "wall"
        found = {}
        for source in self._sources:
            if source.topic is SourceTopic.INTERACTIONS and not by_the_clock:
                continue
            seen_at = None if self._waiting[source] else self._app.end_seen_at(self._tp(source))
            if seen_at is not None:
                found[source] = seen_at
        return found

    def _idle(self, batch: Mapping[Source, list[Any]]) -> set[Source]:
        """The sources that have had nothing to read for `idle_after_s`, and hold nobody back until they have."""
        after = self._topology.time.idle_after_s
        if not after:
            return set()
        now, found = time.monotonic(), set()
        for source in self._sources:
            if source in batch or self._waiting[source]:
                self._heard_at[source] = now
            elif source.topic is SourceTopic.INTERACTIONS and now - self._heard_at[source] >= after:
                seen_at = self._app.end_seen_at(self._tp(source))
                if seen_at is not None and time.time() - seen_at <= _END_IS_FRESH_S:
                    found.add(source)
        return found

    async def _send(self, packed: Packed) -> None:
        topics, outbox = self._topology.topics, self._app.outbox
        packets = [(partition, packet) for partition, packet in enumerate(packed.packets) if packet is not None]
        headers = [(TRACES, packed.traces)] if packed.traces else []
        offsets = await outbox.deliver(
            [Delivery(topics.propagation, to, [OutgoingRecord(None, packet, headers)]) for to, packet in packets]
        )
        if packed.refused:
            await deliver_dead_letters(outbox, topics.dead_letters, packed.refused)
        for (partition, packet), offset in zip(packets, offsets, strict=True):
            self._throttle.sent(partition, offset, len(packet))
            self._downstream.sent(partition, offset, packet, headers)

    def _count(self, packed: Packed) -> None:
        self._metrics.interactions += packed.interactions
        self._metrics.nodes += packed.nodes
        records = packed.interactions + packed.nodes + len(packed.refused) + packed.passed_over
        if records:
            self._metrics.batch_records.observe(records)
        self._metrics.passed_over += packed.passed_over
        if packed.refused:
            self._metrics.refuse(packed.refused)
            log_refused(packed.refused)

    def _source(self, tp: TP) -> Source:
        topic, number = self._topics[tp.topic]
        return Source(topic, number * MOST_PARTITIONS + tp.partition)

    def _tp(self, source: Source) -> TP:
        return TP(self._names[SourceRole(source.topic, source.number)], source.partition_of_topic)
