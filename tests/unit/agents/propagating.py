"""A propagate agent without brokers, and records for it to read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from faust.types import TP

from stream_tgat.agents.engine_thread import EngineThread
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.propagate import Propagate
from stream_tgat.agents.sources import Sources
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import Engine
from stream_tgat.errors import FencedError
from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
from stream_tgat.message_passing.release import ServingEngine
from stream_tgat.message_passing.state_identity import TopicIds
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.topology import Topology
from stream_tgat.wire.origins import pack_origins
from stream_tgat.wire.packets import (
    Block,
    PacketLayout,
    Source,
    SourceTopic,
    decode_blocks,
    decode_packet,
    encode_blocks,
    encode_packet,
    partitions_of,
)
from tests.unit.agents.fakes import FakeApp, FakeCluster, FakeTable, Message

A = Source(SourceTopic.INTERACTIONS, 0)
TPS = frozenset({TP("propagation", 0), TP("propagation", 1)})
VERSION = 3
COUNTS = {"propagation": 2, "embeddings": 1, "alerts": 1}
NINE = [b"ua%d" % at for at in range(9)]


class Setup:
    """A propagate agent that owns two partitions of `propagation`."""

    def __init__(
        self,
        max_wait_s: float | None = None,
        micro_batch: int = 512,
        ids: TopicIds | None = None,
        max_commit_bytes: int = 8 << 20,
    ) -> None:
        topology = Topology.model_validate(
            {
                "name": "t",
                "serving": {"micro_batch": micro_batch},
                "kafka": {"partitions": 2},
                "model": {"neighbours": 2, "candidates": 2, "hidden": 4, "time_dim": 4},
            }
        )
        torch.manual_seed(0)
        config = ModelConfig(neighbours=2, candidates=2, hidden=4, time_dim=4)
        self.layout = PacketLayout(topology.id_bytes, 0, 0, config.state_widths)
        self.app = FakeApp(COUNTS)
        # Others write much: what is sent comes long after what the tests give to read.
        self.app.outbox.begin["propagation"] = 1_000_000
        self.table = FakeTable(self.app.happened, max_commit_bytes)
        self.cluster = FakeCluster({"interactions": [100]})
        self.metrics = Metrics()
        model, sizes = Model(config).eval(), {"id_bytes": topology.id_bytes, "cache_bytes": 1 << 22}
        self.engine = Engine(model, VERSION, **sizes, max_wait_s=max_wait_s)
        app: Any = self.app
        table: Any = self.table
        cluster: Any = self.cluster
        self.throttle = Throttle(100, 100)
        serving = ServingEngine(VERSION, self.engine, self.layout, 0)
        thread = EngineThread(topology, serving, COUNTS, ids or {}, None, table.max_commit_bytes)
        sources = Sources(topology, cluster, ids or {})
        self.propagate = Propagate(app, topology, table, thread, sources, self.throttle, self.metrics)

    def record(
        self,
        partition: int,
        offset: int,
        first: int,
        *times: float,
        watermark: float = 100.0,
        node: bytes | list[bytes] = b"",
    ) -> Message:
        entries = np.zeros(len(times), self.layout.half_edge)
        entries["origin"] = first + np.arange(len(times))
        entries["time"] = times
        entries["node"], entries["peer"] = node or b"ua%d" % partition, b"ib"
        entries["interaction"] = [b"x%d-%d" % (partition, first + n) for n in range(len(times))]
        blocks = encode_blocks([Block(A, first, first + max(len(times), 1), watermark)])
        return Message("propagation", partition, offset, encode_packet(self.layout, blocks, entries))

    async def open(self, partitions: frozenset[TP] = TPS) -> None:
        """Recover partitions, and commit to each which model serves it."""
        await self.propagate.on_recovered(partitions)
        await self.cycle()

    async def cycle(self, *batch: Message) -> None:
        """One cycle, until it is durable or what went wrong has been dealt with."""
        durable = await self.propagate.cycle(batch)
        if durable is not None:
            await asyncio.wait([durable])
            if durable.exception() is not None:
                await self.propagate.cycle([])

    async def lose_tenure(self) -> None:
        """End the right to commit, as something that goes wrong beside a cycle does."""

        def fails(*_: Any) -> None:
            raise FencedError("slept")

        with pytest.raises(FencedError, match="slept"):
            await self.propagate.look(fails)

    def hold_deliveries(self, until: asyncio.Event) -> asyncio.Event:
        """From now on nothing is acknowledged before `until`; the event returned is set once something waits for it."""
        deliver, under_way = self.app.outbox.deliver, asyncio.Event()

        async def slow(deliveries: Any) -> list[int]:
            under_way.set()
            await until.wait()
            return await deliver(deliveries)

        self.app.outbox.deliver = slow  # type: ignore[method-assign]
        return under_way

    def embeddings(self) -> dict[str, list[float]]:
        """What was delivered, by interaction."""
        records = self.app.outbox.sent.get(("embeddings", 0), [])
        found = [orjson.loads(record.value or b"") for record in records]
        return {each["interaction"]: each["embedding"] for each in found}

    def progress(self, partition: int) -> PartitionProgress:
        (value,) = self.table.store(partition).get_many([RESERVED_KEY])
        assert value is not None
        return PartitionProgress.decode(value)


def changed(setup: Setup, record: Message, **columns: Any) -> Message:
    """The same record, but for some columns of its half-edges."""
    packet = decode_packet(setup.layout, record.value or b"")
    half_edges = packet.half_edges.copy()
    for name, values in columns.items():
        half_edges[name] = values
    return replace(record, value=encode_packet(setup.layout, packet.blocks, half_edges))


def of_interaction(setup: Setup, record: Message, source: int) -> Message:
    """The same record, but of interaction x at a partition of `interactions`."""
    packet = decode_packet(setup.layout, record.value or b"")
    (block,) = decode_blocks(packet.blocks)
    blocks = encode_blocks([block._replace(source=Source(SourceTopic.INTERACTIONS, source))])
    half_edges = packet.half_edges.copy()
    half_edges["interaction"] = b"x"
    half_edges["origin"] = pack_origins(source, half_edges["origin"])
    return replace(record, value=encode_packet(setup.layout, blocks, half_edges))


class Clock:
    """The time that the engine sees."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def stream_of(
    monkeypatch: pytest.MonkeyPatch, batches: AsyncIterator[list[Message]], wake: Callable[[], None] = lambda: None
) -> Any:
    """A stream that the agent reads these batches from, and that can be woken."""
    monkeypatch.setattr("stream_tgat.agents.propagate.drain", lambda *_, **__: batches)
    return SimpleNamespace(channel=SimpleNamespace(queue=SimpleNamespace(wake=wake)))


def both_ends(setup: Setup, *times: float, offset: int = 0, first: int = 0) -> list[Message]:
    """A record for each partition: interactions of one user and one item, who belong to different partitions."""
    (of_item,) = partitions_of([b"ib"], 2).tolist()
    user = next(b"u%d" % k for k in range(99) if partitions_of([b"u%d" % k], 2)[0] != of_item)
    records = []
    for side, owner in enumerate((1 - of_item, of_item)):
        record = setup.record(owner, offset, first, *times)
        node, peer = ((user, b"ib"), (b"ib", user))[side]
        names = [b"x%d" % (first + n) for n in range(len(times))]
        records.append(changed(setup, record, node=node, peer=peer, interaction=names, side=side))
    return records


def messages_sent(setup: Setup) -> list[int]:
    """How many peer embeddings each partition was sent."""
    sent = [setup.app.outbox.sent.get(("propagation", partition), []) for partition in (0, 1)]
    return [
        sum(len(s.entries) for r in rs for s in decode_packet(setup.layout, r.value or b"").peer_embeddings)
        for rs in sent
    ]
