"""How much a cycle takes in and computes, and when a partition commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from tests.unit.agents.fakes import Message
from tests.unit.agents.propagating import (
    NINE,
    TPS,
    Setup,
    changed,
    stream_of,
)


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
            return propagate.committed_offsets[0], setup.throttle.backlog()

        await propagate.on_recovered(TPS)
        for offset in range(3):
            setup.throttle.sent(0, offset, 10)
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


@pytest.mark.usefixtures("at_once")
def test_cycle_takes_in_what_one_commit_can_hold_and_the_rest_follows() -> None:
    """A backlog of small half-edges of ever new nodes: most bytes of changes for what was read."""
    each, records = 750, 14
    setup = Setup(max_commit_bytes=1 << 20)
    node = iter(range(each * records))

    def record(offset: int) -> Message:
        made = setup.record(0, offset, offset * each, *[1.0] * each)
        return changed(setup, made, node=[b"ua%06d" % next(node) for _ in range(each)])

    backlog = [record(offset) for offset in range(records)]

    async def go() -> list[int]:
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(*backlog)
        taken = [len(setup.app.acknowledged)]
        while (setup.propagate.start_offset(TP("propagation", 0)) or 0) < records:
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
    setup = Setup(max_commit_bytes=20_000)

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
    async def go() -> Setup:
        before = Setup()
        before.cluster.silent = KafkaConnectionError("no broker")
        await before.propagate.on_recovered(TPS)
        await before.cycle(before.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))
        received = before.engine.changes_bytes(0)
        setup = Setup(micro_batch=5, max_commit_bytes=2 * received - 2)
        await setup.propagate.on_recovered(TPS)
        await setup.cycle(setup.record(0, 0, 0, *map(float, range(1, 10)), node=NINE))
        return setup

    setup = asyncio.run(go())
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


@pytest.mark.usefixtures("at_once")
def test_nothing_more_is_taken_from_the_stream_while_something_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the log holds, one batch of the stream is all that waits here."""
    size = 10
    received: list[int | None] = []
    setup = Setup(max_commit_bytes=20_000)

    async def batches() -> AsyncIterator[list[Message]]:
        for first in range(0, 5 * size, size):
            yield [setup.record(0, offset, 30 * offset, *[1.0] * 30) for offset in range(first, first + size)]
            received.append(setup.propagate.start_offset(TP("propagation", 0)))

    async def go() -> None:
        await setup.propagate.on_recovered(TPS)
        await setup.propagate.run(stream_of(monkeypatch, batches()))
        await setup.propagate.on_revoked(TPS)

    asyncio.run(go())
    assert received == [10, 20, 30, 40, 50]
    assert len(setup.table.sizes) > 10, "each batch fitted into one commit"
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(5 * size)]
