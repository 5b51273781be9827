"""Propagate without brokers: the order of the commit, what is forgotten when it fails, and what stops the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from errno import ENOSPC
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import pytest
import torch
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError
from faust.types import TP

from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.propagate import Propagate
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import Engine
from stream_tgat.errors import FencedError, LostDataError, NotHereError, StateError
from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
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
NINE = [b"ua%d" % at for at in range(9)]


class Setup:
    """A propagate agent that owns two partitions of `propagation`."""

    def __init__(self, max_wait_s: float | None = None, micro_batch: int = 512, ids: TopicIds | None = None) -> None:
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
        self.app = FakeApp({"propagation": 2, "embeddings": 1, "alerts": 1})
        # Others write much: what is sent comes long after what the tests give to read.
        self.app.outbox.begin["propagation"] = 1_000_000
        self.table = FakeTable(self.app.happened)
        self.cluster = FakeCluster({"interactions": [100]})
        self.metrics = Metrics()
        model, sizes = Model(config).eval(), {"id_bytes": topology.id_bytes, "cache_bytes": 1 << 22}
        self.engine = Engine(model, VERSION, **sizes, max_wait_s=max_wait_s)
        arguments: Any = (self.app, topology, self.engine, VERSION, self.layout, self.table, self.cluster)
        self.propagate = Propagate(*arguments, Throttle(100, 100), self.metrics, ids or {})

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

    async def cycle(self, *batch: Message) -> None:
        async with self.propagate._cycling:
            await self.propagate._cycle(batch)
            durable = self.propagate._durable
            if durable is not None:
                await asyncio.wait([durable])
                if durable.exception() is not None:
                    # What went wrong is dealt with when the next cycle is to become durable.
                    await self.propagate._cycle([])

    def hold_deliveries(self, until: asyncio.Event) -> None:
        """From now on nothing is acknowledged before `until`."""
        deliver = self.app.outbox.deliver

        async def slow(deliveries: Any) -> list[int]:
            await until.wait()
            return await deliver(deliveries)

        self.app.outbox.deliver = slow  # type: ignore[method-assign]

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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("stream_tgat.engine.core.time", made)
    monkeypatch.setattr("stream_tgat.agents.propagate._WAITING_S", -1.0)
    return made


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Every partition commits in every cycle, and every call makes one."""
    monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
    monkeypatch.setattr("stream_tgat.message_passing.cycle._SHARE", 1)
    monkeypatch.setattr("stream_tgat.agents.propagate._WAITING_S", -1.0)
    return Setup()


def test_outputs_then_state_then_acknowledgement(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 1.0))

    asyncio.run(go())
    kinds = [each[0] for each in setup.app.happened]
    # First of all each partition commits which model serves it.
    assert kinds[:2] == ["committed", "committed"]
    order = ("delivered", "committed", "acknowledged")
    assert kinds[2:] == sorted(kinds[2:], key=order.index)
    assert set(kinds[2:]) == set(order)
    assert ("delivered", "embeddings", 0) in setup.app.happened
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert (setup.progress(0).offset, setup.progress(0).model, setup.progress(1).model) == (0, VERSION, VERSION)
    assert setup.progress(0).sources.of[A].end == 2
    assert setup.metrics.embeddings == 2


def test_next_cycle_computes_while_the_last_becomes_durable_and_commits_after_it(setup: Setup) -> None:
    at_last = asyncio.Event()

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await propagate._switch_model()
        setup.hold_deliveries(at_last)
        for offset in range(2):
            propagate._owned[0].waiting.append(setup.record(0, offset, offset, 1.0 + offset, node=b"u%d" % offset))
        cycles = [asyncio.create_task(propagate._cycle([]))]
        await cycles[0]
        propagate._owned[0].waiting.append(setup.record(0, 2, 2, 3.0, node=b"u2"))
        cycles.append(asyncio.create_task(propagate._cycle([])))
        while propagate._owned[0].progress.offset < 2:
            await asyncio.sleep(0)
        # Behind the work under way, in the only thread.
        await propagate._in_thread(lambda: None)
        assert setup.engine.pending() == 0
        # Computed, and yet nothing of the first is in the state.
        assert setup.progress(0).offset == -1
        at_last.set()
        await cycles[1]
        assert setup.progress(0).offset == 1
        await propagate.on_revoked(TPS)

    asyncio.run(go())
    assert setup.progress(0).offset == 2
    assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2"]
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(3)]


def test_cycle_computed_upon_one_that_failed_is_given_up_with_it(setup: Setup) -> None:
    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await propagate._switch_model()
        setup.table.fenced = True
        propagate._owned[0].waiting.append(setup.record(0, 0, 0, 1.0))
        await propagate._cycle([])
        propagate._owned[0].waiting.append(setup.record(0, 1, 1, 2.0, node=b"u1"))
        asyncio.get_running_loop().call_later(0.1, lambda: setattr(setup.table, "fenced", False))
        await propagate._cycle([])
        assert (setup.progress(0).offset, propagate.start_offset(TP("propagation", 0))) == (-1, 0)
        await setup.cycle(setup.record(0, 0, 0, 1.0), setup.record(0, 1, 1, 2.0, node=b"u1"))

    asyncio.run(go())
    assert setup.progress(0).offset == 1
    assert setup.metrics.embeddings == 2


@pytest.mark.parametrize(
    "error", [OSError(ENOSPC, "no space"), KafkaTimeoutError(), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("place", ["embeddings", "propagation", "changelog", "disk", "engine"])
def test_after_any_failure_nothing_is_committed_before_the_state_is_opened_anew(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException
) -> None:
    outbox, table, propagate = setup.app.outbox, setup.table, setup.propagate

    def broken(*arguments: Any, **named: Any) -> Any:
        raise error

    async def go() -> int:
        await propagate.on_recovered(TPS)
        await propagate._switch_model()
        with monkeypatch.context() as patched:
            outbox.fails_on, outbox.fails_with = place, error
            if place == "changelog":
                table.append_fails = error
            elif place == "disk":
                table.write_fails = error
            elif place == "engine":
                patched.setattr(setup.engine, "compute", broken)
            propagate._owned[0].waiting.append(setup.record(0, 0, 0, 1.0))
            with suppress(type(error)):
                await propagate._cycle([])
            if propagate._durable is not None:
                await asyncio.wait([propagate._durable])
        outbox.fails_on = ""
        # Computed upon what has failed; its outputs are never sent, and it is not the partition's turn to commit.
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        propagate._owned[0].waiting.append(setup.record(0, 1, 1, 2.0, node=b"u1"))
        with suppress(type(error), StateError):
            await propagate._cycle([])
        before = setup.app.happened.count(("committed", 0))
        await propagate.on_revoked(TPS)
        assert setup.app.happened.count(("committed", 0)) == before
        table.recover()
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await propagate.on_recovered(TPS)
        start = propagate.start_offset(TP("propagation", 0))
        assert start is not None
        await setup.cycle(*[setup.record(0, 0, 0, 1.0), setup.record(0, 1, 1, 2.0, node=b"u1")][start:])
        return start

    assert asyncio.run(go()) == (1 if place == "disk" else 0)
    assert setup.progress(0).offset == 1
    assert set(setup.embeddings()) == {"x0-0", "x0-1"}


def test_state_is_not_read_again_while_a_cycle_is_still_becoming_durable(setup: Setup) -> None:
    at_last = asyncio.Event()

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await propagate._switch_model()
        setup.hold_deliveries(at_last)
        propagate._owned[0].waiting.append(setup.record(0, 0, 0, 1.0))
        await propagate._cycle([])
        # The next one is fenced off before it begins.
        propagate._owned[1].progress.model, propagate._more = -1, True
        setup.table.fenced = True
        next_cycle = asyncio.create_task(propagate._cycle([]))
        await asyncio.sleep(0.05)
        setup.table.fenced = False
        # Long enough to open the partitions again, if nothing held it up.
        await asyncio.sleep(0.3)
        at_last.set()
        await next_cycle
        assert propagate.start_offset(TP("propagation", 0)) == 1

    asyncio.run(go())
    assert setup.progress(0).offset == 0
    assert (setup.metrics.embeddings, setup.propagate.pending) == (1, 0)


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


def test_peer_embeddings_for_nodes_of_this_worker_do_not_wait_until_they_are_read(setup: Setup) -> None:
    """Two layers of both ends in one cycle; the peer embeddings are sent all the same."""

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*both_ends(setup, 1.0, 2.0))

    asyncio.run(go())
    assert (setup.metrics.embeddings, setup.propagate.pending) == (4, 0)
    assert min(messages_sent(setup)) > 0


def test_peer_embeddings_for_nodes_of_this_worker_are_sent_before_any_partition_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Embeddings leave at once; messages that are in their rows here need not be in the log before a state says so."""
    setup = Setup()

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate._switch_model()
        for offset in range(3):
            await setup.cycle(*both_ends(setup, 1.0 + offset, offset=offset, first=offset))
        assert (len(setup.embeddings()), messages_sent(setup)) == (3, [0, 0])
        setup.app.happened.clear()
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    delivered = [("delivered", "propagation", partition) for partition in (0, 1)]
    assert sorted(setup.app.happened[:2]) == delivered
    assert setup.app.happened[2][0] == "committed"
    assert messages_sent(setup) == [3, 3]


def test_peer_embeddings_that_were_held_are_forgotten_with_what_was_computed() -> None:
    """They are computed again, as no state says that they were."""
    setup = Setup()

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        await propagate._switch_model()
        await setup.cycle(*both_ends(setup, 1.0))
        setup.table.fenced = True
        propagate._tenure.end(FencedError("slept"))
        asyncio.get_running_loop().call_later(0.1, lambda: setattr(setup.table, "fenced", False))
        await setup.cycle()
        assert messages_sent(setup) == [0, 0]
        await setup.cycle(*both_ends(setup, 1.0))
        await propagate.on_revoked(TPS)

    asyncio.run(go())
    assert messages_sent(setup) == [1, 1]
    assert [setup.progress(partition).offset for partition in (0, 1)] == [0, 0]


def test_peer_embeddings_for_nodes_of_other_workers_are_sent_at_once() -> None:
    setup = Setup()

    async def go() -> None:
        (record, _) = both_ends(setup, 1.0)
        await setup.propagate.on_recovered(frozenset({record.tp}))
        await setup.propagate._switch_model()
        await setup.cycle(record)

    asyncio.run(go())
    assert sorted(messages_sent(setup)) == [0, 1]


def test_what_was_sent_from_here_makes_no_cycle_when_it_is_heard_or_read(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the echo of peer embeddings that are in their rows nor the twins of records that were received."""
    setup.app.outbox.begin["propagation"] = 1
    woken: list[None] = []

    async def go() -> None:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        ends = both_ends(setup, 1.0)
        for record in ends:
            propagate.sent(record.partition, record.offset, record.value or b"")
        propagate._wake = lambda: woken.append(None)
        await setup.cycle()
        assert len(setup.embeddings()) == 1
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        last = propagate._cycled_at
        sent = [setup.app.outbox.sent["propagation", end.partition][0].value for end in ends]
        twins = [replace(end, offset=1, value=value) for end, value in zip(ends, sent, strict=True)]
        await setup.cycle(*ends, *twins)
        assert (woken, propagate._cycled_at) == ([], last)
        assert propagate.start_offset(TP("propagation", 0)) == 2
        # Nobody needs to read them; they are acknowledged with the next commit.
        assert setup.app.heard == {TP("propagation", 0): 2, TP("propagation", 1): 2}
        assert sorted(setup.app.acknowledged) == [("propagation", 0, 0), ("propagation", 1, 0)]
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    assert [setup.progress(partition).offset for partition in (0, 1)] == [1, 1]
    assert sorted(setup.app.acknowledged) == [("propagation", p, offset) for p in (0, 1) for offset in (0, 1)]
    assert setup.metrics.messages == 0


def test_record_that_was_sent_is_received_before_it_is_read_and_counts_once(setup: Setup) -> None:
    async def go() -> None:
        propagate, records = setup.propagate, [setup.record(0, k, k, 1.0 + k, node=b"u%d" % k) for k in range(4)]
        value = [record.value or b"" for record in records]
        await propagate.on_recovered(TPS)
        propagate.sent(0, 0, value[0])
        # Acknowledged out of order: it waits for its turn.
        propagate.sent(0, 2, value[2])
        await setup.cycle()
        assert list(setup.embeddings()) == ["x0-0"]
        assert (setup.app.heard[TP("propagation", 0)], setup.app.acknowledged) == (1, [("propagation", 0, 0)])
        propagate.sent(0, 1, value[1])
        await setup.cycle()
        assert setup.app.heard[TP("propagation", 0)] == 3
        assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2"]
        await setup.cycle(*records)

    asyncio.run(go())
    assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2", "x0-3"]
    assert setup.progress(0).offset == 3
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(4)]


def test_model_that_serves_is_in_every_state_before_the_first_output_that_names_it(setup: Setup) -> None:
    """Also where another model served before, and in partitions that nothing is computed for."""
    for partition in (0, 1):
        old = PartitionProgress(setup.layout.fingerprint, model=VERSION - 1)
        setup.table.store(partition).write([(RESERVED_KEY, old.encode())])
    deliver = setup.app.outbox.deliver
    seen: list[list[int]] = []

    async def look_and_deliver(deliveries: Any) -> list[int]:
        seen.append([setup.progress(partition).model for partition in (0, 1)])
        return await deliver(deliveries)

    setup.app.outbox.deliver = look_and_deliver  # type: ignore[method-assign]

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert list(setup.embeddings()) == ["x0-0"]
    assert seen == [[VERSION, VERSION]] * len(seen)


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
        assert setup.app.acknowledged == []
        assert setup.propagate.start_offset(TP("propagation", 0)) == 0
        assert sorted(setup.app.read_from) == sorted(TPS)
        assert (setup.metrics.fenced, setup.metrics.embeddings) == (1, 0)
        # Read again, it is new to the engine too.
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    asyncio.run(go())
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert (setup.propagate.pending, setup.metrics.embeddings) == (0, 1)


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


def test_rows_that_wait_for_a_watermark_are_told_in_the_state_and_those_that_wait_for_peer_embeddings_are_not(
    setup: Setup,
) -> None:
    async def go() -> tuple[int, int, int]:
        await setup.propagate.on_recovered(TPS)
        # The second of a node sees the first, whose peer embedding its peer never sends.
        await setup.cycle(setup.record(0, 0, 0, 5.0, 6.0, 7.0, 200.0, 300.0))
        return setup.propagate.pending, await setup.propagate.waiting(), setup.progress(0).waiting

    pending, waiting, stored = asyncio.run(go())
    assert (waiting, stored) == (2, 2)
    assert pending > 2


def test_watermarks_alone_are_committed_rarely(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0))
        assert setup.app.acknowledged == []
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle()

    asyncio.run(go())
    assert setup.app.acknowledged == [("propagation", 0, 0)]
    assert setup.progress(0).offset == 0


def test_offset_that_is_received_and_not_committed_is_not_told_as_committed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies below the committed offsets is deleted; the throttle only asks what has been read."""

    async def go() -> list[tuple[int, int]]:
        propagate = setup.propagate

        def told() -> tuple[int, int]:
            return propagate.committed_offsets[0], propagate._throttle.backlog()

        await propagate.on_recovered(TPS)
        for offset in range(3):
            propagate._throttle.sent(0, offset, 10)
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        await setup.cycle(setup.record(0, 0, 0))
        found = [told()]
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        await setup.cycle(setup.record(0, 1, 1, 1.0))
        found.append(told())
        setup.app.outbox.fails_on = "propagation"
        with pytest.raises(ConnectionError):
            await setup.cycle(setup.record(0, 2, 2, 2.0))
        return [*found, told()]

    assert asyncio.run(go()) == [(-1, 20), (1, 10), (1, 0)]


def test_cycle_takes_in_what_one_commit_can_hold_and_the_rest_follows(setup: Setup) -> None:
    """A backlog of small half-edges of ever new nodes: most bytes of changes for what was read."""
    each, records = 6_000, 14
    node = iter(range(each * records))

    def record(offset: int) -> Message:
        made = setup.record(0, offset, offset * each, *[1.0] * each)
        return changed(setup, made, node=[b"ua%06d" % next(node) for _ in range(each)])

    backlog = [record(offset) for offset in range(records)]

    async def go() -> list[int]:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*backlog)
        taken = [len(setup.app.acknowledged)]
        while setup.propagate._is_waiting:
            await setup.cycle()
            taken.append(len(setup.app.acknowledged))
        return taken

    taken = asyncio.run(go())
    assert sum(setup.table.sizes) > 2 * setup.table.max_commit_bytes, "one commit could have held it all"
    assert len(taken) > 2
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(records)]
    assert setup.propagate.pending + setup.metrics.embeddings == each * records


def test_partitions_commit_when_they_are_old_some_in_each_cycle_and_outputs_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = Setup()

    async def go() -> list[dict[int, int]]:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0), setup.record(1, 0, 0, 3.0))
        assert len(setup.embeddings()) == 2
        found = [setup.propagate.committed_offsets]
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", -1.0)
        for _ in range(2):
            await setup.cycle()
            found.append(setup.propagate.committed_offsets)
        return found

    young, one, both = asyncio.run(go())
    assert young == {0: -1, 1: -1}
    assert sorted(one.values()) == [-1, 0]
    assert both == {0: 0, 1: 0}
    assert sorted(setup.app.acknowledged) == [("propagation", 0, 0), ("propagation", 1, 0)]


def test_what_is_not_old_enough_is_committed_when_the_partitions_go() -> None:
    setup = Setup()

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0), setup.record(1, 0, 0, 2.0))
        assert setup.propagate.committed_offsets == {0: -1, 1: -1}
        await setup.propagate.on_revoked(TPS)
        await setup.propagate.on_recovered(TPS)

    asyncio.run(go())
    assert setup.propagate.committed_offsets == {0: 0, 1: 0}
    assert setup.propagate.pending == 0


def test_partition_that_is_full_commits_however_young_it_is() -> None:
    setup = Setup()
    setup.table.max_commit_bytes = 20_000

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        for offset in range(12):
            nodes = [b"ua%d" % (40 * offset + at) for at in range(40)]
            await setup.cycle(setup.record(0, offset, 40 * offset, *[1.0] * 40, node=nodes))
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    # What three cycles leave to commit would not fit.
    assert max(setup.table.sizes) > setup.table.max_commit_bytes / 3
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(12)]


def test_cycle_goes_on_until_nothing_is_ready_however_small_a_micro_batch_is() -> None:
    setup = Setup(micro_batch=5)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))

    asyncio.run(go())
    # Nine rows, each up one layer and out: more than one micro-batch, and fewer than a cycle takes.
    assert len(setup.embeddings()) == 9
    assert not setup.propagate.is_computing


def test_cycle_ends_when_a_commit_has_just_room_for_what_was_computed() -> None:
    before, setup = Setup(), Setup(micro_batch=5)
    before.cluster.silent = KafkaConnectionError("no broker")

    async def go() -> None:
        await before.propagate.on_recovered(TPS)
        await before.cycle(before.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))
        received = before.engine.changes_bytes(0)
        setup.table.max_commit_bytes = 2 * received - 2
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))

    asyncio.run(go())
    assert len(setup.embeddings()) == 5
    assert setup.propagate.is_computing


def test_cycle_ends_after_some_micro_batches_and_says_that_there_is_more() -> None:
    setup = Setup(micro_batch=1)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))

    asyncio.run(go())
    assert 0 < len(setup.embeddings()) < 9
    assert setup.propagate.is_computing


def test_nothing_more_is_taken_from_the_stream_while_something_waits(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the log holds, one batch of the stream is all that waits here."""
    size = 10
    waiting: list[int] = []
    stream = SimpleNamespace(channel=SimpleNamespace(queue=SimpleNamespace(wake=lambda: None)))
    setup.table.max_commit_bytes = 20_000

    async def batches(*arguments: Any, **options: Any) -> AsyncIterator[list[Message]]:
        for first in range(0, 5 * size, size):
            waiting.append(sum(len(each.waiting) for each in setup.propagate._owned.values()))
            yield [setup.record(0, offset, 30 * offset, *[1.0] * 30) for offset in range(first, first + size)]
            waiting.append(sum(len(each.waiting) for each in setup.propagate._owned.values()))

    monkeypatch.setattr("stream_tgat.agents.propagate.drain", batches)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate.run(stream)
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    assert waiting == [0] * 10
    assert len(setup.table.sizes) > 10, "each batch fitted into one commit"
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(5 * size)]


def test_row_whose_peer_embedding_never_comes_goes_without_it_after_max_wait_and_is_counted(clock: Clock) -> None:
    setup = Setup(max_wait_s=60.0)

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0))
        clock.now += 60.0
        await setup.cycle()
        assert list(setup.embeddings()) == ["x0-0"]
        assert (setup.propagate.pending, setup.metrics.forced) == (1, 0)
        clock.now += 1.0
        await setup.cycle()

    asyncio.run(go())
    assert (setup.propagate.pending, setup.metrics.forced, setup.metrics.embeddings) == (0, 1, 2)
    # Masked: the second sees only the first, whose peer embedding is not there, so it is what it would be without any
    # past.
    first, second = setup.embeddings().values()
    np.testing.assert_allclose(second, first, atol=1e-6)


def test_max_wait_does_not_run_while_peer_embeddings_may_simply_not_have_been_read(clock: Clock) -> None:
    setup = Setup(max_wait_s=60.0)
    setup.app.consumer.unread[TP("propagation", 1)] = 501

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0, 2.0))
        for _ in range(10):
            clock.now += 50.0
            await setup.cycle()
        setup.app.consumer.unread.clear()
        clock.now += 50.0
        await setup.cycle()
        assert (setup.propagate.pending, setup.metrics.forced) == (1, 0)
        clock.now += 50.0
        await setup.cycle()

    asyncio.run(go())
    assert (setup.propagate.pending, setup.metrics.forced) == (0, 1)


def test_nothing_is_computed_before_the_sources_are_known(setup: Setup) -> None:
    """A source that nobody has heard of yet may hold earlier events."""
    setup.cluster.silent = KafkaConnectionError("no broker")

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        assert (setup.propagate.expected, setup.propagate.pending) == ((), 1)
        assert setup.embeddings() == {}
        setup.cluster.silent = None
        await setup.propagate.look_at_sources()
        await setup.cycle()

    asyncio.run(go())
    assert setup.propagate.expected == (A,)
    assert list(setup.embeddings()) == ["x0-0"]


def test_look_that_fails_leaves_the_sources_that_were_found_before(setup: Setup) -> None:
    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        setup.cluster.silent = KafkaConnectionError("no broker")
        with pytest.raises(KafkaConnectionError):
            await setup.propagate.look_at_sources()

    asyncio.run(go())
    assert setup.propagate.expected == (A,)


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


@pytest.mark.parametrize(
    ("topic", "way_on"),
    [
        ("interactions", "kafka.topic_prefix"),
        ("propagation", "kafka.topic_prefix"),
        ("models", "kafka.topic_prefix"),
        ("stream-tgat-t-graph-changelog", "kafka.topic_prefix"),
        ("labels", "start the worker again"),
        ("nodes", "start the worker again"),
    ],
)
def test_topic_made_anew_stops_the_worker_however_many_records_it_has(topic: str, way_on: str) -> None:
    names = ("interactions", "propagation", "models", "stream-tgat-t-graph-changelog", "labels", "nodes")
    setup = Setup(ids={name: UUID(int=1 + at) for at, name in enumerate(names)})
    setup.cluster.ids = {name: UUID(int=1 + at) for at, name in enumerate(names)}

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, 1.0))
        await setup.propagate.look_at_sources()
        setup.cluster.ids[topic] = UUID(int=99)
        with pytest.raises(LostDataError, match=f"'{topic}' was deleted and created again.*{way_on}"):
            await setup.propagate.look_at_sources()

    asyncio.run(go())


def test_backlog_is_much_unread_here_or_with_another_owner_and_not_the_batch_in_hand(setup: Setup) -> None:
    async def go() -> list[bool]:
        propagate = setup.propagate
        await propagate.on_recovered(TPS)
        propagate._owned[0].waiting.append(setup.record(0, 0, 0, 1.0))
        found = [propagate._has_backlog()]
        setup.app.consumer.unread[TP("propagation", 1)] = 501
        found.append(propagate._has_backlog())
        setup.app.consumer.unread.clear()
        propagate._throttle.sent(5, 0, 101)
        found.append(propagate._has_backlog())
        return found

    assert asyncio.run(go()) == [False, True, True]


def test_repeat_from_another_partition_is_dropped_and_counted_once_also_after_a_restart(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user and its item belong to different partitions, and both drop it."""

    def halves(offset: int, source: int, first: int) -> list[Message]:
        found = []
        for partition in (0, 1):
            record = of_interaction(setup, setup.record(partition, offset, first, 1.0), source)
            node, peer = ((b"ua", b"ib"), (b"ib", b"ua"))[partition]
            found.append(changed(setup, record, side=partition, node=node, peer=peer))
        return found

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*halves(0, source=0, first=0))
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        await setup.cycle(*halves(1, source=1, first=0))
        assert (setup.metrics.half_edges, setup.metrics.repeats) == (4, 1)
        await setup.propagate.on_revoked(TPS)
        await setup.propagate.on_recovered(TPS)
        # The record that held but a repeat is read again, since nothing hurried its commit.
        setup.metrics.repeats = 0
        await setup.cycle(*halves(1, source=1, first=0), *halves(2, source=2, first=0))

    asyncio.run(go())
    assert (setup.metrics.repeats, setup.metrics.differing_repeats, setup.metrics.duplicates) == (2, 0, 0)
    assert setup.metrics.arrived_behind == 0
    assert len(setup.embeddings()) == 1
    assert len(setup.app.outbox.sent["embeddings", 0]) == 2


def test_look_sees_what_is_owned_and_a_failure_in_it_ends_the_right_to_commit() -> None:
    async def go() -> None:
        setup = Setup()
        await setup.propagate.on_recovered(TPS)
        assert await setup.propagate.look(lambda engine, received: sorted(received)) == [0, 1]

        def elsewhere(*_: Any) -> None:
            raise NotHereError("partition 2")

        with pytest.raises(NotHereError):
            await setup.propagate.look(elsewhere)
        assert not setup.propagate._tenure.is_over

        def fails(*_: Any) -> None:
            raise OSError(ENOSPC, "no space")

        with pytest.raises(OSError, match="no space"):
            await setup.propagate.look(fails)
        # What was read in part must not be committed, nor answer anybody.
        assert setup.propagate._tenure.is_over
        assert await setup.propagate.look(lambda engine, received: sorted(received)) == []

    asyncio.run(go())
