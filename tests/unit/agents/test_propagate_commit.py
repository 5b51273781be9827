"""Propagate commits: in which order, what is forgotten when a step fails, and who reads again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from errno import ENOSPC
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP

from stream_tgat.errors import FencedError, StateError
from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
from tests.unit.agents.propagating import (
    TPS,
    VERSION,
    A,
    Setup,
)


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
        await setup.open()
        setup.hold_deliveries(at_last)
        records = [setup.record(0, offset, offset, 1.0 + offset, node=b"u%d" % offset) for offset in range(3)]
        await propagate.cycle(records[:2])
        second = asyncio.create_task(propagate.cycle(records[2:]))
        while propagate.start_offset(TP("propagation", 0)) != 3:
            await asyncio.sleep(0)
        # Behind the work under way, in the only thread.
        assert await propagate.look(lambda engine, _: engine.pending()) == 0
        # Computed, and yet nothing of the first is in the state.
        assert setup.progress(0).offset == -1
        at_last.set()
        await second
        assert setup.progress(0).offset == 1
        await propagate.on_revoked(TPS)

    asyncio.run(go())
    assert setup.progress(0).offset == 2
    assert list(setup.embeddings()) == ["x0-0", "x0-1", "x0-2"]
    assert setup.app.acknowledged == [("propagation", 0, offset) for offset in range(3)]


def test_cycle_computed_upon_one_that_failed_is_given_up_with_it(setup: Setup) -> None:
    async def go() -> None:
        propagate = setup.propagate
        await setup.open()
        setup.table.fenced = True
        await propagate.cycle([setup.record(0, 0, 0, 1.0)])
        asyncio.get_running_loop().call_later(0.1, lambda: setattr(setup.table, "fenced", False))
        await propagate.cycle([setup.record(0, 1, 1, 2.0, node=b"u1")])
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
        await setup.open()
        with monkeypatch.context() as patched:
            outbox.fails_on, outbox.fails_with = place, error
            if place == "changelog":
                table.append_fails = error
            elif place == "disk":
                table.write_fails = error
            elif place == "engine":
                patched.setattr(setup.engine, "compute", broken)
            with suppress(type(error)):
                durable = await propagate.cycle([setup.record(0, 0, 0, 1.0)])
                assert durable is not None
                await asyncio.wait([durable])
        outbox.fails_on = ""
        # Computed upon what has failed; its outputs are never sent, and it is not the partition's turn to commit.
        monkeypatch.setattr("stream_tgat.message_passing.partition.COMMIT_S", 99.0)
        with suppress(type(error), StateError):
            await propagate.cycle([setup.record(0, 1, 1, 2.0, node=b"u1")])
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
    record = setup.record(0, 0, 0, 1.0)

    async def go() -> None:
        propagate = setup.propagate
        await setup.open()
        under_way = setup.hold_deliveries(at_last)
        await propagate.cycle([record])
        await under_way.wait()
        await setup.lose_tenure()
        next_cycle = asyncio.create_task(propagate.cycle([setup.record(0, 1, 1, 2.0, node=b"u1")]))
        # Long enough to open the partitions again, if nothing held it up.
        await asyncio.sleep(0.3)
        assert (next_cycle.done(), setup.app.read_from) == (False, [])
        at_last.set()
        await next_cycle
        assert sorted(setup.app.read_from) == sorted(TPS)
        # What was delivered without the right to commit is in no state.
        assert (setup.progress(0).offset, propagate.start_offset(record.tp)) == (-1, 0)
        await setup.cycle(record)

    asyncio.run(go())
    assert setup.progress(0).offset == 0
    assert (setup.metrics.embeddings, setup.propagate.pending) == (1, 0)


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
        await setup.open()
        setup.app.outbox.fails_on = "embeddings"
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    with pytest.raises(ConnectionError):
        asyncio.run(go())
    assert setup.app.acknowledged == []
    assert setup.progress(0).offset == -1


def test_fenced_commit_forgets_and_reads_again_from_the_state(setup: Setup) -> None:
    async def go() -> None:
        await setup.open()
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
        await setup.open()
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
        await setup.open()
        setup.table.fenced = True
        await setup.cycle(setup.record(0, 0, 0, 1.0))

    setup.app.conf.broker_session_timeout = 0.1
    with pytest.raises(FencedError):
        asyncio.run(go())


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


def test_look_sees_what_is_owned_and_a_failure_in_it_ends_the_right_to_commit() -> None:
    async def go() -> None:
        setup = Setup()
        await setup.propagate.on_recovered(TPS)
        assert await setup.propagate.look(lambda engine, received: sorted(received)) == [0, 1]

        def fails(*_: Any) -> None:
            raise OSError(ENOSPC, "no space")

        with pytest.raises(OSError, match="no space"):
            await setup.propagate.look(fails)
        # What was read in part must not be committed, nor answer anybody.
        assert await setup.propagate.look(lambda engine, received: sorted(received)) == []

    asyncio.run(go())
