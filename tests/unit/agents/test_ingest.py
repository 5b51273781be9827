"""Ingest without brokers: one cycle after the other, acknowledged when everything is, held back when told to."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from stream_tgat.agents.ingest import REST_TICK_S, WAITED_TICK_S, Ingest
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.throttle import Throttle
from stream_tgat.errors import LostDataError
from stream_tgat.message_passing.packing import Packer
from stream_tgat.topology import Topology
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.packets import Block, PacketLayout, Source, SourceTopic, decode_blocks, decode_packet
from tests.unit.agents.fakes import FakeApp, Message

A, B = (Source(SourceTopic.INTERACTIONS, n) for n in range(2))
NODES = Source(SourceTopic.NODES, 0)
TPS = frozenset({TP("interactions", 0), TP("interactions", 1), TP("nodes", 0)})
PARTITIONS = 2


#: One whose queue nobody looks into.
STREAM = SimpleNamespace(channel=SimpleNamespace(queue=SimpleNamespace(wake=lambda: None)))


class Downstream:
    """What the propagation partitions of the worker say."""

    def __init__(self) -> None:
        self.pending = 0
        self.is_computing = False
        self.expected = (A, B, NODES)
        self.newest = -math.inf
        self.watermarks: dict[Source, float] = {}
        self.heard: list[tuple[int, int, bytes]] = []
        self.on_newer_event: Callable[[], None] = lambda: None

    def sent(self, partition: int, offset: int, value: bytes, _: Headers = ()) -> None:
        self.heard.append((partition, offset, value))

    def source_watermarks(self) -> Mapping[Source, float]:
        return self.watermarks


class Setup:
    """An ingest agent that owns all sources."""

    def __init__(self, clock: str = "event", start: dict[int, int] | None = None, **time: float) -> None:
        self.topology = Topology.model_validate(
            {
                "name": "t",
                "graph": {"node_features": 1},
                "time": {"clock": clock, **time},
                "kafka": {"partitions": PARTITIONS},
            }
        )
        self.layout = PacketLayout(self.topology.id_bytes, 0, 1, (1, 4))
        self.app = FakeApp({"dead-letters": 1})
        self.app.offsets.of_group = start or {}
        self.down = Downstream()
        self.throttle = Throttle(window_bytes=100_000, max_pending=10)
        self.metrics = Metrics()
        packer = Packer(self.topology, self.layout, PARTITIONS, 900_000)
        packer.max_interactions = 10
        self.ingest = Ingest(self.app, self.topology, packer, self.throttle, self.down, self.metrics)  # type: ignore[arg-type]

    def read(
        self, partition: int, *offsets: int, time: float = 5.0, value: bytes | None = None, written: float = 2e9
    ) -> None:
        for offset in offsets:
            fields = {"user": "a", "item": "b", "timestamp": time + offset}
            message = Message("interactions", partition, offset, value or orjson.dumps(fields), timestamp=written)
            self.ingest._waiting[Source(SourceTopic.INTERACTIONS, partition)].append(message)

    def waiting(self, source: Source) -> int:
        return len(self.ingest._waiting[source])

    def blocks(self, partition: int = 0) -> list[Block]:
        records = self.app.outbox.sent.get(("propagation", partition), [])
        packets = [decode_packet(self.layout, record.value or b"") for record in records]
        return [block for packet in packets for block in decode_blocks(packet.blocks)]

    async def cycle(self) -> None:
        self.ingest._looked_at = -math.inf
        async with self.ingest._cycling:
            await self.ingest._cycle()


class Monotonic:
    """The time that ingest sees; the wall clock goes with it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    made = Monotonic()
    monkeypatch.setattr("stream_tgat.agents.ingest.time", made)
    return made


def _run(setup: Setup, *, revoke: bool = False) -> None:
    async def go() -> None:
        if not setup.ingest._sources:
            await setup.ingest.on_recovered(TPS)
        await setup.cycle()
        if revoke:
            await setup.ingest.on_revoked(TPS)

    asyncio.run(go())


@pytest.fixture
def setup() -> Setup:
    made = Setup()
    asyncio.run(made.ingest.on_recovered(TPS))
    return made


@pytest.mark.parametrize(("noted", "made_anew"), [("a1 p2", "interactions"), ("a2 p1", "propagation")])
def test_offsets_of_the_group_that_are_of_other_topics_stop_the_worker(noted: str, made_anew: str) -> None:
    setup = Setup()
    setup.app.commit_notes = {"interactions": "a2 p2"}
    setup.app.offsets.noted = {0: "a2 p2", 1: ""}  # the latter is as other tools commit
    asyncio.run(setup.ingest.on_recovered(TPS))
    setup.app.offsets.noted = {0: "a2 p2", 1: noted}
    with pytest.raises(LostDataError, match=f"'{made_anew}' was deleted and created again"):
        asyncio.run(setup.ingest.on_recovered(TPS))


def test_cycle_sends_blocks_to_all_partitions_then_acknowledges(setup: Setup) -> None:
    setup.read(0, 0, 1, 2)
    setup.read(1, 0)
    _run(setup)
    # Each of the two sources, once everything is sent.
    assert setup.app.happened[-2:] == [("acknowledged",)] * 2
    assert {each[2] for each in setup.app.happened[:-2]} == {0, 1}
    assert sorted(setup.app.acknowledged) == [("interactions", 0, n) for n in range(3)] + [("interactions", 1, 0)]
    sent = {partition: setup.app.outbox.sent["propagation", partition][0].value for partition in (0, 1)}
    assert setup.down.heard == [(partition, 0, sent[partition]) for partition in (0, 1)]
    assert [(b.source, b.first, b.end, b.watermark) for b in setup.blocks()] == [(A, 0, 3, 7.0), (B, 0, 1, 5.0)]
    setup.read(0, 3)
    _run(setup)
    assert [(b.source, b.first, b.end) for b in setup.blocks()[2:]] == [(A, 3, 4)]
    sizes = [sum(len(r.value or b"") for r in setup.app.outbox.sent["propagation", p]) for p in (0, 1)]
    assert setup.throttle.backlog() == max(sizes)
    assert setup.metrics.interactions == 5


@pytest.mark.parametrize("topic", ["propagation", "dead-letters"])
def test_nothing_is_acknowledged_when_a_delivery_fails(setup: Setup, topic: str) -> None:
    setup.app.outbox.fails_on = topic
    setup.read(0, 0)
    setup.read(0, 1, value=b"{")
    with pytest.raises(ConnectionError):
        _run(setup)
    assert setup.app.acknowledged == []
    assert setup.ingest._sources[A].position == 0


@pytest.mark.parametrize("error", [KafkaTimeoutError(), ValueError(), asyncio.CancelledError()], ids=repr)
def test_after_a_cycle_that_failed_nothing_is_sent_before_sources_are_assigned_anew(
    setup: Setup, error: BaseException
) -> None:
    """A later block would begin where the failed one did, without its interactions: lost, and not even a gap."""

    async def go() -> None:
        ingest, outbox = setup.ingest, setup.app.outbox
        outbox.fails_on, outbox.fails_with = "propagation", error
        setup.read(0, 0, 1)
        with pytest.raises(type(error)):
            await ingest._go_on()
        outbox.fails_on = ""
        if A in ingest._waiting:
            setup.read(0, 2, 3)
        await ingest._go_on()
        assert (setup.app.acknowledged, setup.blocks(), setup.down.heard) == ([], [], [])
        await ingest.on_recovered(TPS)
        setup.read(0, 0, 1, 2, 3)
        await ingest._go_on()

    asyncio.run(go())
    assert [(block.first, block.end) for block in setup.blocks() if block.source == A] == [(0, 4)]


def test_reading_begins_at_the_groups_offset_or_where_the_log_begins() -> None:
    setup = Setup(start={0: 7})
    setup.app.consumer.earliest = {TP("interactions", 0): 3, TP("interactions", 1): 4}
    asyncio.run(setup.ingest.on_recovered(TPS))
    assert setup.ingest.start_offset(TP("interactions", 0)) == 7
    assert setup.ingest.start_offset(TP("interactions", 1)) == 4
    setup.read(0, 7)
    _run(setup)
    assert [(b.first, b.end) for b in setup.blocks()] == [(7, 8)]


def test_gap_between_offset_and_log_is_passed_on_for_receivers_to_refuse() -> None:
    setup = Setup(start={0: 7})
    setup.app.consumer.earliest = {TP("interactions", 0): 9}
    asyncio.run(setup.ingest.on_recovered(TPS))
    setup.read(0, 9)
    _run(setup)
    assert [(b.first, b.end) for b in setup.blocks()] == [(9, 10)]


def test_wall_clock_is_announced_at_the_end_of_a_partition_only() -> None:
    setup = Setup(clock="wall", allowed_lateness_s=0.0)
    asyncio.run(setup.ingest.on_recovered(TPS))
    setup.down.pending = 1
    setup.read(0, 0)
    setup.app.ended, setup.app.ended_at = {TP("interactions", 0)}, 1e9
    _run(setup)
    assert [(block.source, block.watermark) for block in setup.blocks()] == [(A, 1e9)]
    _run(setup)
    assert len(setup.blocks()) == 1, "the end says nothing of the time after the fetch that saw it"
    setup.app.ended_at = 1e9 + 0.25
    _run(setup)
    assert [block.watermark for block in setup.blocks()] == [1e9, 1e9 + 0.25]


def test_time_is_announced_while_somebody_waits_for_it_and_not_otherwise(clock: Monotonic) -> None:
    """An idle deployment writes nothing, whatever the clock says."""
    setup = Setup(clock="wall", allowed_lateness_s=0.0)
    asyncio.run(setup.ingest.on_recovered(frozenset({TP("interactions", 0)})))
    setup.app.ended = {TP("interactions", 0)}

    def announced_in(seconds: float) -> int:
        before = len(setup.blocks())
        for _ in range(round(seconds / 0.005)):
            clock.now += 0.005
            setup.app.ended_at = clock.time()
            asyncio.run(setup.ingest._go_on())
        return len(setup.blocks()) - before

    assert announced_in(1.0) == 1, "everybody waits for a source that has never been heard of"
    setup.down.pending = 1
    assert 50 <= announced_in(1.0) <= 101, "rows of this worker wait"
    setup.down.pending = 0
    assert announced_in(1.0) == 0
    setup.down.newest = clock.time() + 0.25
    assert 12 <= announced_in(1.0) <= 26, "rows of any worker may wait, up to the newest event that was told of"
    setup.read(0, 0)
    assert announced_in(0.005) == 1, "a record waits for no tick"
    assert announced_in(1.0) == 0
    setup.read(0, 1, time=clock.time() + 0.25 - 1)
    assert 12 <= announced_in(1.0) <= 27, "the newest may be of this worker"


def test_worker_that_is_told_nothing_announces_time_always(clock: Monotonic) -> None:
    """It owns no partition of `propagation`, so it cannot know who waits."""
    setup = Setup(clock="wall", allowed_lateness_s=0.0)
    asyncio.run(setup.ingest.on_recovered(frozenset({TP("interactions", 0)})))
    setup.app.ended, setup.down.newest = {TP("interactions", 0)}, math.inf
    for _ in range(10):
        clock.now += 0.02
        setup.app.ended_at = clock.time()
        asyncio.run(setup.ingest._go_on())
    assert len(setup.blocks()) == 10


def test_record_ahead_of_the_clock_promises_no_more_than_when_it_was_written() -> None:
    """A legal record at now + 299 s must not make late what is written after it, however much later it is read."""
    setup = Setup(clock="wall", allowed_lateness_s=0.5)
    asyncio.run(setup.ingest.on_recovered(TPS))
    before = time.time()
    # Written 20 s ago, and, where producers set the clock, in the future.
    for offset, written in ((0, before - 20.0), (1, before + 200.0)):
        setup.read(0, offset, time=before + 270.0, written=written)
        _run(setup)
    first, second = (block.watermark for block in setup.blocks())
    assert first == before - 20.5
    assert before - 0.5 <= second <= time.time() - 0.5


def test_event_clock_never_announces_the_wall_clock(setup: Setup) -> None:
    setup.app.ended = {TP("interactions", 0), TP("interactions", 1)}
    _run(setup)
    assert setup.blocks() == []


def _idle_setup(clock: Monotonic, idle_after_s: float = 30.0) -> Setup:
    """B and the nodes have been read to their end."""
    setup = Setup(idle_after_s=idle_after_s)
    asyncio.run(setup.ingest.on_recovered(TPS))
    setup.app.ended = {TP("interactions", 1), TP("nodes", 0)}
    return setup


def _wait(setup: Setup, clock: Monotonic, seconds: int, *, end_seen: bool = True) -> list[tuple[Source, bool]]:
    """What blocks say of being idle, while so many seconds pass."""
    before = len(setup.blocks())
    for _ in range(seconds):
        clock.now += 1.0
        setup.app.ended_at = clock.time() if end_seen else setup.app.ended_at
        _run(setup)
    return [(block.source, block.is_idle) for block in setup.blocks()[before:] if block.source != NODES]


def test_source_without_records_is_idle_after_a_while_and_awaited_again_from_its_next_record(clock: Monotonic) -> None:
    setup = _idle_setup(clock)
    assert _wait(setup, clock, 29) == []
    assert _wait(setup, clock, 2) == [(B, True)]
    assert _wait(setup, clock, 60) == [], "it is said once"
    setup.read(1, 0)
    assert _wait(setup, clock, 1) == [(B, False)]
    assert _wait(setup, clock, 29) == []
    assert _wait(setup, clock, 1) == [(B, True)]


def test_source_whose_end_no_fetch_has_seen_lately_is_not_idle(clock: Monotonic) -> None:
    setup = _idle_setup(clock)
    _wait(setup, clock, 1)
    assert _wait(setup, clock, 60, end_seen=False) == []


def test_no_source_is_idle_unless_the_topology_says_after_how_long(clock: Monotonic) -> None:
    assert _wait(_idle_setup(clock, idle_after_s=0.0), clock, 100) == []


def test_nodes_are_let_go_once_at_their_end_whatever_the_clock(setup: Setup) -> None:
    _run(setup)
    assert setup.blocks() == []
    setup.app.ended = {TP("nodes", 0)}
    _run(setup)
    _run(setup)
    assert [(b.source, b.first, b.end, b.watermark) for b in setup.blocks()] == [(NODES, 0, 0, math.inf)]


def test_while_rows_wait_only_the_source_furthest_behind_is_sent(setup: Setup) -> None:
    setup.down.pending = 11
    setup.down.watermarks = {A: 20.0, B: 10.0, NODES: math.inf}
    setup.read(0, 0, 1)
    setup.read(1, 0, 1)
    _run(setup)
    assert {b.source for b in setup.blocks()} == {B}
    setup.down.pending = 0
    _run(setup)
    assert {b.source for b in setup.blocks()} == {A, B}


def test_held_source_with_enough_waiting_is_no_longer_fetched(setup: Setup) -> None:
    setup.down.pending = 11
    setup.down.watermarks = {A: 20.0, B: 10.0, NODES: math.inf}
    setup.read(0, *range(20))
    _run(setup)
    assert setup.app.consumer.paused == {TP("interactions", 0)}
    setup.down.pending = 0
    _run(setup)
    assert setup.app.consumer.paused == set()


def test_held_source_with_few_but_large_records_is_no_longer_fetched(setup: Setup) -> None:
    setup.down.pending = 11
    setup.down.watermarks = {A: 20.0, B: 10.0, NODES: math.inf}
    setup.read(0, 0, value=b"x" * (4 << 20))
    _run(setup)
    assert setup.app.consumer.paused == set()
    setup.read(0, 1, value=b"x" * (4 << 20))
    _run(setup)
    assert setup.app.consumer.paused == {TP("interactions", 0)}


def test_what_waits_of_a_held_source_stays_bounded_however_much_it_has(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source A has far more than may wait, and is ahead of B, which nothing comes from."""
    setup.down.pending = 11
    setup.down.watermarks = {A: 20.0, B: 10.0, NODES: math.inf}
    waiting: list[int] = []

    async def batches(*arguments: Any, **options: Any) -> AsyncIterator[list[Message]]:
        for first in range(0, 400, 4):
            waiting.append(setup.waiting(A))
            held = TP("interactions", 0) in setup.app.consumer.paused
            yield [] if held else [_interaction(offset) for offset in range(first, first + 4)]

    monkeypatch.setattr("stream_tgat.agents.ingest.drain", batches)
    asyncio.run(setup.ingest.run(STREAM))
    # Two cycles of 10, and the batch that fills them up.
    assert 20 <= max(waiting) < 24
    assert setup.blocks() == []


def test_nothing_more_is_taken_from_the_stream_before_what_is_here_has_been_sent(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []

    async def batches(*arguments: Any, **options: Any) -> AsyncIterator[list[Message]]:
        for first in range(0, 200, 40):
            waiting.append(setup.waiting(A))
            yield [_interaction(offset) for offset in range(first, first + 40)]

    monkeypatch.setattr("stream_tgat.agents.ingest.drain", batches)
    asyncio.run(setup.ingest.run(STREAM))
    assert waiting == [0] * 5
    assert setup.blocks()[-1].end == 200


def test_ingest_waits_while_the_window_is_full_and_counts_it(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    async def batches(*arguments: Any, **options: Any) -> AsyncIterator[list[Message]]:
        yield [_interaction(0)]

    async def go() -> list[Block]:
        setup.throttle.sent(1, 7, 100_001)
        ingest = asyncio.create_task(setup.ingest.run(STREAM))
        await asyncio.sleep(0.05)
        stalled = setup.blocks()
        setup.throttle.read(1, 8)
        await asyncio.wait_for(ingest, 5)
        return stalled

    monkeypatch.setattr("stream_tgat.agents.ingest.drain", batches)
    assert asyncio.run(go()) == []
    assert [block.end for block in setup.blocks()] == [1]
    assert setup.metrics.window_stalls == 1
    assert 0.04 <= setup.metrics.throttled_s["window"] < 5.0


def _interaction(offset: int) -> Message:
    return Message("interactions", 0, offset, orjson.dumps({"user": "a", "item": "b", "timestamp": 5.0 + offset}))


def test_cycle_has_room_for_every_source(setup: Setup) -> None:
    setup.read(0, *range(30))
    setup.read(1, *range(3))
    _run(setup)
    ends = {b.source: b.end for b in setup.blocks()}
    assert ends[B] == 3
    assert 5 <= ends[A] <= 7


def test_revocation_forgets_everything(setup: Setup) -> None:
    setup.read(0, 0)
    _run(setup, revoke=True)
    assert setup.ingest._sources == {}
    assert setup.ingest.start_offset(TP("interactions", 0)) is None


def test_ingest_that_nobody_waits_for_looks_rarely_and_at_once_when_somebody_else_has_an_event(
    clock: Monotonic, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup("wall")
    woken: list[float] = []
    stream = SimpleNamespace(channel=SimpleNamespace(queue=SimpleNamespace(wake=lambda: woken.append(clock.now))))
    ticks: list[float] = []

    async def batches(*arguments: Any, idle_s: Callable[[], float], **options: Any) -> AsyncIterator[list[Message]]:
        yield []
        for pending in (1, 0, 0, 1, 1):
            setup.down.on_newer_event()
            setup.down.pending = pending
            clock.now += 1.0
            ticks.append(idle_s())

    monkeypatch.setattr("stream_tgat.agents.ingest.drain", batches)

    async def go() -> None:
        setup.app.ended |= TPS
        setup.app.ended_at = clock.time()
        await setup.ingest.on_recovered(TPS)
        await setup.ingest.run(stream)

    asyncio.run(go())
    assert ticks == [WAITED_TICK_S, REST_TICK_S, REST_TICK_S, WAITED_TICK_S, WAITED_TICK_S]
    assert woken == [1002.0, 1003.0]


def test_rows_that_wait_are_no_reason_to_look_often_where_only_events_move_time(setup: Setup) -> None:
    setup.down.pending = 1

    async def go() -> tuple[float, float]:
        await setup.ingest.on_recovered(TPS)
        before = setup.ingest._tick_s()
        setup.app.ended.add(TP("nodes", 0))
        await setup.cycle()
        return before, setup.ingest._tick_s()

    # Node features hold everything back until they are read to their end.
    assert asyncio.run(go()) == (WAITED_TICK_S, REST_TICK_S)
