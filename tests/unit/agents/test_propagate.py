"""Propagate without brokers: the order of the commit, what is forgotten when it fails, and what stops the worker."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch
from faust.types import TP

from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.packets import Block, PacketLayout, encode_packet
from stream_tgat.agents.progress import RESERVED_KEY, Progress, Source, SourceTopic
from stream_tgat.agents.propagate import Propagate
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import Engine
from stream_tgat.errors import FencedError, LostDataError
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.topology import Topology
from tests.unit.agents.fakes import FakeApp, FakeCluster, FakeTable, Message

A = Source(SourceTopic.INTERACTIONS, 0)
TPS = frozenset({TP("propagation", 0), TP("propagation", 1)})
VERSION = 3


class Setup:
    """A propagate agent that owns two partitions of `propagation`."""

    def __init__(self) -> None:
        topology = Topology.model_validate(
            {
                "name": "t",
                "kafka": {"partitions": 2},
                "model": {"neighbours": 2, "candidates": 2, "hidden": 4, "time_dim": 4},
            }
        )
        torch.manual_seed(0)
        config = ModelConfig(neighbours=2, candidates=2, hidden=4, time_dim=4)
        self.layout = PacketLayout(topology.id_bytes, 0, 0, config.state_widths)
        self.app = FakeApp({"propagation": 2, "embeddings": 1, "alerts": 1})
        self.table = FakeTable(self.app.happened)
        self.cluster = FakeCluster({"interactions": [100]})
        self.metrics = Metrics()
        self.engine = Engine(Model(config).eval(), VERSION, id_bytes=topology.id_bytes, cache_bytes=1 << 22)
        arguments: Any = (self.app, topology, self.engine, VERSION, self.layout, self.table, self.cluster)
        self.propagate = Propagate(*arguments, Throttle(100, 100), self.metrics)

    def record(self, partition: int, offset: int, first: int, *times: float, watermark: float = 100.0) -> Message:
        entries = np.zeros(len(times), self.layout.half_edge)
        entries["offset"] = first + np.arange(len(times))
        entries["time"] = times
        entries["node"], entries["peer"] = b"ua%d" % partition, b"ib"
        entries["interaction"] = [b"x%d-%d" % (partition, first + n) for n in range(len(times))]
        block = Block(A, first, first + max(len(times), 1), watermark, -1.0, entries)
        return Message("propagation", partition, offset, encode_packet(self.layout, [block]))

    async def cycle(self, *batch: Message) -> None:
        for message in batch:
            self.propagate._waiting[message.partition].append(message)
        async with self.propagate._cycling:
            await self.propagate._cycle(batch)

    def progress(self, partition: int) -> Progress:
        (value,) = self.table.store(partition).get_many([RESERVED_KEY])
        assert value is not None
        return Progress.decode(value)


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_outputs_then_state_then_acknowledgement(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 1.0))

    asyncio.run(go())
    kinds = [each[0] for each in setup.app.happened]
    # First of all each partition commits which model serves it.
    assert kinds[:2] == ["committed", "committed"]
    assert kinds[2:] == [*["delivered"] * (len(kinds) - 4), "committed", "acknowledged"]
    assert ("delivered", "embeddings", 0) in setup.app.happened
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert (setup.progress(0).offset, setup.progress(0).model, setup.progress(1).model) == (0, VERSION, VERSION)
    assert setup.progress(0).sources[A].end == 2
    assert setup.metrics.embeddings == 2


def test_delivery_that_fails_commits_nothing(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate._switch_model()
        setup.app.outbox.fails_on = "embeddings"
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    with pytest.raises(ConnectionError):
        asyncio.run(go())
    assert setup.app.acknowledged == []
    assert setup.progress(0).offset == -1


def test_fenced_commit_forgets_and_reads_again_from_the_state(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate._switch_model()
        setup.table.fenced = True
        asyncio.get_running_loop().call_later(0.25, lambda: setattr(setup.table, "fenced", False))
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert setup.app.acknowledged == []
    assert setup.engine.pending() == 0
    assert setup.propagate.start_offset(TP("propagation", 0)) == 0
    assert sorted(setup.app.read_from) == sorted(TPS)
    assert setup.metrics.fenced == 1


def test_fenced_while_partitions_are_handed_over_waits_for_the_next_recovery(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate._switch_model()
        setup.table.fenced, setup.app.fence.is_open = True, False
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        await setup.propagate.on_revoked(TPS)
        setup.table.fenced, setup.app.fence.is_open = False, True
        await setup.propagate.on_recovered(frozenset({TP("propagation", 0)}))
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert setup.app.read_from == []


def test_worker_that_stays_fenced_without_a_rebalance_stops(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate._switch_model()
        setup.table.fenced = True
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    setup.app.conf.broker_session_timeout = 0.1
    with pytest.raises(FencedError):
        asyncio.run(go())


def test_rows_wait_for_the_watermark_of_every_source(setup: Setup) -> None:
    setup.cluster.topics["interactions"] = [100, 100]

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        assert setup.propagate.pending == 1
        assert setup.metrics.embeddings == 0
        setup.cluster.topics["interactions"] = [100]
        await setup.propagate.look_at_sources()
        await setup.cycle()

    asyncio.run(go())
    assert (setup.metrics.embeddings, setup.propagate.pending) == (1, 0)


def test_watermarks_alone_are_committed_rarely(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0))
        assert setup.app.acknowledged == []
        monkeypatch.setattr("stream_tgat.agents.propagate._LAZY_COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert setup.progress(0).offset == 0


def test_reopened_partition_goes_on_behind_its_state(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(1, 0, 0, 1.0))
        await setup.propagate.on_revoked(TPS)
        assert setup.propagate.start_offset(TP("propagation", 1)) is None
        await setup.propagate.on_recovered(TPS)

    asyncio.run(go())
    assert setup.propagate.start_offset(TP("propagation", 1)) == 1
    assert setup.propagate.committed_offsets == {0: -1, 1: 0}


def test_source_that_ends_below_what_was_received_stops_the_worker(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0, 3.0))
        setup.cluster.topics["interactions"] = [2]
        await setup.propagate.look_at_sources()

    with pytest.raises(LostDataError, match="interactions/0 ends at offset 2, but everything below 3"):
        asyncio.run(go())


def test_backlog_is_much_unread_here_or_with_another_owner_and_not_the_batch_in_hand(setup: Setup) -> None:
    async def go() -> list[bool]:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        propagate._waiting[0].append(setup.record(0, 0, 0, 1.0))
        found = [propagate._has_backlog()]
        setup.app.consumer.unread[TP("propagation", 1)] = 501
        found.append(propagate._has_backlog())
        setup.app.consumer.unread.clear()
        propagate._throttle.sent[5], propagate._throttle.read[5] = 600, 99
        found.append(propagate._has_backlog())
        return found

    assert asyncio.run(go()) == [False, True, True]
