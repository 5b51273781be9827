"""Live disorder, through ingest, the wire and the receivers: what is marked, and that all else is the single pass's.

Time is simulated: events happen, arrive at a broker some time later, and are read by fetches that come when they come.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from faust.types import TP

from stream_tgat.agents.ingest import Ingest
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import Engine, HalfEdges, both_halves
from stream_tgat.message_passing.packing import Packer
from stream_tgat.message_passing.receiving import Receiver, receive
from stream_tgat.message_passing.state_identity import Identity
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology
from stream_tgat.transport.outbox import RecordHeaders
from stream_tgat.wire.packets import PacketLayout, Source, SourceTopic, partitions_of
from tests.unit.agents.fakes import FakeApp, Message
from tests.unit.engine.promise import Name, check_what_no_marked_row_has_touched
from tests.unit.nn.models import random_model

SOURCES = tuple(Source(SourceTopic.INTERACTIONS, n) for n in range(3))
START = 1_700_000_000.0
OWNERS = 2


@dataclass(frozen=True)
class Event:
    time: float
    arrives: float
    partition: int
    user: str
    item: str
    id: str

    @property
    def record(self) -> bytes:
        fields = {"user": self.user, "item": self.item, "timestamp": self.time, "id": self.id, "amount": 1.0}
        return orjson.dumps(fields)


def events(seed: int, count: int, *, delay_s: float, gap_s: float = 0.02) -> list[Event]:
    """Of few nodes over three partitions, each on its way for up to `delay_s`."""
    draw, time, found = random.Random(seed), START, []
    for n in range(count):
        time = round(time + draw.expovariate(1 / gap_s), 3)
        user, item = f"u{draw.randrange(6)}", f"i{draw.randrange(6)}"
        found.append(Event(time, time + draw.uniform(0.0, delay_s), draw.randrange(3), user, item, f"x{n:03d}"))
    return found


class Clock:
    now = START

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class Downstream:
    """Nothing is held, and nothing sent is heard of but through the log."""

    pending, is_computing, expected, newest = 0, False, SOURCES, -np.inf

    def source_watermarks(self) -> dict[Source, float]:
        return {}

    def sent(self, partition: int, offset: int, value: bytes, headers: RecordHeaders = ()) -> None:
        pass


class Worker:
    """Ingest, the receivers of both partitions and an engine; `fetch` is one round of them."""

    def __init__(self, now: Clock, layers: int, **time: Any) -> None:
        self.topology = Topology.model_validate(
            {
                "name": "t",
                "kafka": {"partitions": OWNERS},
                "features": [{"kind": "number", "name": "amount"}],
                "time": time,
            }
        )
        torch.manual_seed(3)
        self.model = random_model(torch.float32, layers=layers, edge_features=1, neighbours=20, candidates=20)
        layout = PacketLayout(self.topology.id_bytes, 1, 0, self.model.config.state_widths)
        self.clock, self.app, self.metrics = now, FakeApp({"dead-letters": 1}), Metrics()
        packer = Packer(self.topology, layout, OWNERS, 900_000)
        arguments: Any = (self.app, self.topology, packer, Throttle(10_000, 10_000), Downstream(), self.metrics)
        self.ingest = Ingest(*arguments)
        self.engine = Engine(self.model, 7, id_bytes=self.topology.id_bytes)
        identity = Identity.of(self.topology, {})
        self.receivers = [
            Receiver(self.engine, layout, "propagation", p, MemoryStore(), identity) for p in range(OWNERS)
        ]
        self.offsets = dict.fromkeys(SOURCES, 0)
        self.read_to = dict.fromkeys(range(OWNERS), 0)
        self.found: dict[Name, Any] = {}
        self.marked: set[Name] = set()
        self.behind: dict[int, int] = {}
        asyncio.run(self.ingest.on_recovered(frozenset(TP("interactions", n) for n in range(3))))
        self.app.ended = {TP("interactions", n) for n in range(3)}

    def fetch(self, arrived: list[Event]) -> None:
        """All that has come to the brokers until now is read, received, and computed as far as time has come."""
        for event in arrived:
            source = SOURCES[event.partition]
            self.ingest._waiting[source].append(
                Message("interactions", event.partition, self.offsets[source], event.record, timestamp=event.arrives)
            )
            self.offsets[source] += 1
        self.app.ended_at = self.clock.now
        self.ingest._looked_at = -np.inf
        asyncio.run(self.ingest._go_on())
        waiting = []
        for partition, receiver in enumerate(self.receivers):
            sent = self.app.outbox.sent.get(("propagation", partition), [])
            begin, self.read_to[partition] = self.read_to[partition], len(sent)
            records = [Message("propagation", partition, n, sent[n].value) for n in range(begin, len(sent))]
            waiting.append((receiver, records))
        for received in receive(self.engine, waiting, 10**9, SOURCES).values():
            for partition, count in received.behind.items():
                self.behind[partition] = self.behind.get(partition, 0) + count
        self.compute({p: receiver.watermark(SOURCES) for p, receiver in enumerate(self.receivers)})

    def compute(self, watermarks: dict[int, float]) -> None:
        while (computed := self.engine.compute(watermarks, 1000)).rows:
            for peer_embeddings in computed.peer_embeddings:
                self.engine.fill(partitions_of(peer_embeddings.node.tolist(), OWNERS).astype(np.int32), peer_embeddings)
            left = computed.embeddings
            names = list(zip(left.interaction.tolist(), left.side.tolist(), strict=True))
            self.found |= dict(zip(names, left.embedding, strict=True))
            self.marked |= {name for name, late in zip(names, left.late.tolist(), strict=True) if late}


def half_edges(happened: list[Event]) -> HalfEdges:
    return both_halves(
        np.array([f"u{event.user}".encode() for event in happened]),
        np.array([f"i{event.item}".encode() for event in happened]),
        np.array([event.id.encode() for event in happened]),
        np.array([event.time for event in happened]),
        np.ones((len(happened), 1), np.float32),
    )


def came_behind(fetches: list[tuple[list[Event], float]]) -> set[Name]:
    """By words of the promise: when it was read, a later row of its node had been computed by an earlier fetch.

    fetches: what each has read, and the time up to which all was computed after it
    """
    known: dict[str, list[float]] = {}
    found, passed = set(), -np.inf
    for arrived, then_passed in fetches:
        for event in arrived:
            for side, node in enumerate((f"user {event.user}", f"item {event.item}")):
                if any(event.time < time <= passed for time in known.get(node, ())):
                    found.add((event.id.encode(), side))
        for event in arrived:
            for node in (f"user {event.user}", f"item {event.item}"):
                known.setdefault(node, []).append(event.time)
        passed = max(passed, then_passed)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("stream_tgat.agents.ingest.time", made)
    return made


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("lateness_s", "some_are_behind"), [(0.0, True), (0.05, True), (0.2, False)])
def test_live_events_out_of_order_across_and_within_partitions(
    clock: Clock, layers: int, lateness_s: float, some_are_behind: bool
) -> None:
    """On their way for up to 0.2 s: with that lateness all is exact, with less those that came behind are marked."""
    happened = events(layers, 150, delay_s=0.2)
    on_the_way = sorted(happened, key=lambda event: event.arrives)
    worker, draw = Worker(clock, layers, allowed_lateness_s=lateness_s), random.Random(9)
    fetches = []
    while on_the_way or not fetches:
        clock.now += draw.uniform(0.005, 0.06)
        arrived = [event for event in on_the_way if event.arrives <= clock.now]
        on_the_way = on_the_way[len(arrived) :]
        # In the order of the topic: partition by partition, each as it came.
        worker.fetch(arrived)
        fetches.append((arrived, clock.now - lateness_s))
    worker.compute(dict.fromkeys(range(OWNERS), np.inf))
    expected = came_behind(fetches)
    assert bool(expected) == some_are_behind
    assert worker.marked == expected
    of = {event.id.encode(): event.partition for event in happened}
    assert worker.behind == {p: n for p in range(3) if (n := sum(of[name] == p for name, _ in expected))}
    certain = check_what_no_marked_row_has_touched(worker.model, half_edges(happened), worker.marked, worker.found)
    assert certain == 300 if not some_are_behind else 20 < certain < 300


def test_event_ahead_of_the_clock_makes_no_other_late(clock: Clock) -> None:
    """A producer's clock is five minutes ahead: legal, and of no concern to what others send to the same partition."""
    happened = events(5, 60, delay_s=0.0)
    early = Event(START + 299.0, START, 0, "u0", "i0", "ahead")
    worker = Worker(clock, 2, allowed_lateness_s=0.0)
    worker.fetch([early])
    for event in happened:
        clock.now = event.arrives
        worker.fetch([event])
    # What has the time of the watermark itself may still get company.
    clock.now += 0.001
    worker.fetch([])
    assert worker.found.keys() == {(event.id.encode(), side) for event in happened for side in (0, 1)}
    clock.now = START + 299.001
    worker.fetch([])
    assert worker.marked == set()
    assert (
        check_what_no_marked_row_has_touched(worker.model, half_edges([early, *happened]), set(), worker.found) == 122
    )


def test_source_that_was_idle_comes_back_behind_and_only_what_it_touches_is_in_doubt(clock: Clock) -> None:
    """clock = "event": partition 2 is silent for a minute, after which it sends what happened meanwhile."""
    worker = Worker(clock, 2, clock="event", idle_after_s=10.0)
    happened = events(6, 150, delay_s=0.0, gap_s=1.0)
    back_at = happened[100].time
    silent = {event.id for event in happened[20:100] if event.partition == 2 and event.time > START + 20.0}
    kept_back = [event for event in happened if event.id in silent]
    newest, heard = dict.fromkeys(SOURCES, -np.inf), dict.fromkeys(SOURCES, START)
    fetches, passed = [], -np.inf
    for event in happened:
        clock.now = event.time
        arrived = [] if event.id in silent else [event]
        if event.time == back_at:
            arrived = sorted([*kept_back, event], key=lambda each: each.time)
        worker.fetch(arrived)
        for each in arrived:
            source = SOURCES[each.partition]
            newest[source], heard[source] = max(newest[source], each.time), clock.now
        awaited = [newest[source] for source in SOURCES if clock.now - heard[source] < 10.0]
        passed = max(passed, min([*awaited, max(newest.values())]))
        fetches.append((arrived, passed))
    worker.compute(dict.fromkeys(range(OWNERS), np.inf))
    expected = came_behind(fetches)
    assert len(expected) > 10
    assert {name.decode() for name, _ in expected} <= silent
    assert worker.marked == expected
    assert worker.behind == {2: len(expected)}
    assert check_what_no_marked_row_has_touched(worker.model, half_edges(happened), expected, worker.found) > 50
