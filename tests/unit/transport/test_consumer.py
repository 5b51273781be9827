"""Nothing is lost between the client and the stream. What stock Faust loses is shown beside it, on the same logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.errors import LostDataError
from stream_tgat.transport.buffer import RECORD_OVERHEAD_BYTES
from stream_tgat.transport.client import HeldBack
from stream_tgat.transport.options import TransportOptions
from tests.unit.transport.fake_client import NUMBERS, FakeRecord, FakeThread, Rig


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario(), 20))


async def _end_of_recovery(rig: Rig) -> list[int]:
    rig.thread.committed = {NUMBERS: 2}
    rig.app.rebalancing = rig.app.in_recovery = True
    loop = asyncio.ensure_future(rig.consumer._drain_messages(rig.fetcher))
    await rig.app.tables.recovery.on_recovery_completed(1)
    await asyncio.sleep(0.3)
    rig.fetcher._stopped.set()
    await loop
    return rig.received()


def test_records_fetched_while_recovery_ends_are_not_cleared_from_the_queue() -> None:
    """Stock seeks, goes on fetching while it waits for that, and then clears its queues."""

    async def stock() -> list[int]:
        return await _end_of_recovery(Rig(FakeThread({NUMBERS: range(10)}), stock=True))

    async def ours() -> list[int]:
        return await _end_of_recovery(Rig(FakeThread({NUMBERS: range(10)})))

    assert run(ours) == list(range(2, 10))
    assert run(stock) == [], "stock no longer loses these: is the repair still needed?"


async def _fetch_in_flight(rig: Rig) -> list[int]:
    await rig.consumer.perform_seek()
    # A fetch that began before the rebalance has moved the client on; its records were dropped.
    rig.thread.take([NUMBERS])
    await rig.consumer.perform_seek()
    await rig.fetch_for(0.2)
    return rig.received()


CHANGELOG = TP("rig-graph-changelog", 0)


class RecoveringRig(Rig):
    """A rig with a table whose changelog has ten records, and that only notes which of them are applied to it."""

    def __init__(self) -> None:
        super().__init__(FakeThread({CHANGELOG: range(10)}))
        self.applied: list[int] = []
        self.table = self.app.bulk_table("graph", partitions=1)
        self.table._data = SimpleNamespace(
            persisted_offset=lambda _: None,
            apply_records=lambda _, records: self.applied.extend(record.offset for record in records),
        )
        self.recovery = self.app.tables.recovery
        self.app.rebalancing = True
        self.recovery.active_highwaters[CHANGELOG] = 9

    async def seek_anew(self) -> None:
        """As after a rebalance, with an empty disk."""
        self.recovery.add_active(self.table, CHANGELOG)
        await self.recovery._build_offsets(self.consumer, {CHANGELOG}, self.recovery.active_offsets, "active")
        await self.recovery._seek_offsets(self.consumer, {CHANGELOG}, self.recovery.active_offsets, "active")


def test_records_of_a_changelog_in_a_fetch_that_was_dropped_are_read_again() -> None:
    async def recover() -> list[int]:
        rig = RecoveringRig()
        await rig.seek_anew()
        # Asked for before the rebalance: the client is behind them.
        rig.thread.take([CHANGELOG])
        await rig.fetch_for(0.2)
        assert not rig.recovery.need_recovery()
        return rig.applied

    assert run(recover) == list(range(10))


def test_fetch_from_before_a_changelog_was_sought_anew_does_not_end_its_recovery() -> None:
    """Its disk is empty since: what the client was behind then has all to be read."""

    async def recover() -> list[int]:
        rig = RecoveringRig()
        await rig.seek_anew()
        await rig.fetch_for(0.2)
        rig.applied.clear()
        before = rig.recovery.seeks.last(CHANGELOG)
        rig.recovery.add_active(rig.table, CHANGELOG)
        for sought in (before, rig.recovery.seeks.last(CHANGELOG)):
            rig.recovery.reached(CHANGELOG, 10, sought)
        await rig.seek_anew()
        rig.recovery.reached(CHANGELOG, 10, before)
        await rig.recovery.apply(CHANGELOG, [FakeRecord("rig-graph-changelog", 0, 9)], before)
        assert (rig.recovery.next(CHANGELOG), rig.applied) == (0, [])
        await rig.fetch_for(0.2)
        return rig.applied

    assert run(recover) == list(range(10))


def test_partition_without_a_committed_offset_is_read_from_its_beginning_again() -> None:
    """Stock seeks only partitions with a committed offset; the others stay where a dropped fetch has left them."""

    async def stock() -> list[int]:
        return await _fetch_in_flight(Rig(FakeThread({NUMBERS: range(8)}), stock=True))

    async def ours() -> list[int]:
        return await _fetch_in_flight(Rig(FakeThread({NUMBERS: range(8)})))

    assert run(ours) == list(range(8))
    assert run(stock) == [4, 5, 6, 7], "stock no longer loses these: is the repair still needed?"


async def _hole(rig: Rig) -> tuple[list[int], int | None]:
    """The offsets 2 to 4 are not in the log; 1 and 6 are processed, 5 is not."""
    rig.app.producer.flush = _nothing
    rig.thread.committed = {NUMBERS: 1}
    await rig.consumer.perform_seek()
    await rig.fetch_for(0.2)
    offsets = rig.received()
    for message in rig.messages:
        if message.offset != 5:
            message.ack(rig.consumer)
    await rig.consumer.commit()
    return offsets, rig.thread.commits.get(NUMBERS)


def test_record_behind_a_hole_is_not_committed_before_it_is_processed() -> None:
    """Stock counts the record that follows a hole as part of the hole (`_add_gap` is off by one)."""

    async def scenario(*, stock: bool) -> tuple[list[int], int | None]:
        return await _hole(Rig(FakeThread({NUMBERS: [1, 5, 6]}), stock=stock))

    assert run(lambda: scenario(stock=False)) == ([1, 5, 6], 2)
    assert run(lambda: scenario(stock=True)) == ([1, 5, 6], 7), "stock skips no record now: is the repair still needed?"


async def _nothing() -> None:
    pass


def test_hole_that_compaction_or_a_transaction_has_left_is_read_past() -> None:
    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: [0, 1, 2, 3, 9, 10]}))
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.2)
        return rig.received()

    assert run(scenario) == [0, 1, 2, 3, 9, 10]


def test_control_records_at_the_end_do_not_hide_the_end_of_the_partition() -> None:
    async def scenario() -> tuple[float | None, float | None, float | None, float | None]:
        rig = Rig(FakeThread({NUMBERS: range(3)}, ends={NUMBERS: 5}))
        await rig.consumer.perform_seek()
        before = rig.app.end_seen_at(NUMBERS)
        await rig.fetch_for(0.3)
        waiting = rig.app.end_seen_at(NUMBERS)
        rig.received()
        return before, waiting, rig.app.end_seen_at(NUMBERS), rig.thread.fetched_at

    before, waiting, seen_at, fetched_at = run(scenario)
    assert (before, waiting) == (None, None)
    assert seen_at == fetched_at


def test_only_control_records_since_the_start_reach_the_end_of_the_partition() -> None:
    async def scenario() -> float | None:
        rig = Rig(FakeThread({NUMBERS: []}, ends={NUMBERS: 2}))
        await rig.consumer.perform_seek()
        rig.consumer.positions.seek(NUMBERS, 0)
        rig.thread.positions[NUMBERS] = 0
        await rig.fetch_for(0.3)
        return rig.app.end_seen_at(NUMBERS)

    assert run(scenario)


def test_partition_is_not_at_its_end_while_a_transaction_is_open_there() -> None:
    """Its records may be older than the clock, and may still count; but nobody is to blame that they wait."""

    async def scenario() -> list[tuple[list[int], bool, int, HeldBack | None]]:
        rig = Rig(FakeThread({NUMBERS: range(8)}))
        await rig.consumer.perform_seek()
        rig.thread.readable = {NUMBERS: 5}
        seen = []
        for _ in range(2):
            await rig.fetch_for(0.3)
            received = rig.received()
            at_end = rig.app.end_seen_at(NUMBERS) is not None
            seen.append((received, at_end, rig.consumer.backlog(NUMBERS), rig.app.held_back(NUMBERS)))
            rig.thread.readable.clear()
        return seen

    assert run(scenario) == [([0, 1, 2, 3, 4], False, 0, HeldBack(5, 3)), ([5, 6, 7], True, 0, None)]


def test_what_a_transaction_holds_back_is_not_known_of_an_old_fetch() -> None:
    async def scenario() -> tuple[HeldBack | None, HeldBack | None]:
        rig = Rig(FakeThread({NUMBERS: range(8)}))
        await rig.consumer.perform_seek()
        rig.thread.readable = {NUMBERS: 5}
        await rig.fetch_for(0.1)
        new = rig.app.held_back(NUMBERS)
        assert rig.thread.fetched_at is not None
        rig.thread.fetched_at -= 60.0
        return new, rig.app.held_back(NUMBERS)

    assert run(scenario) == (HeldBack(5, 3), None)


def test_end_is_only_known_as_of_the_last_fetch_that_was_answered() -> None:
    """A broker that falls silent holds the time of the end still, however long that lasts."""

    async def scenario() -> tuple[float | None, float | None, float | None]:
        rig = Rig(FakeThread({NUMBERS: []}))
        await rig.consumer.perform_seek()
        unknown = rig.app.end_seen_at(NUMBERS)
        await rig.fetch_for(0.1)
        seen_at = rig.app.end_seen_at(NUMBERS)
        await asyncio.sleep(0.1)
        return unknown, seen_at, rig.app.end_seen_at(NUMBERS)

    unknown, seen_at, later = run(scenario)
    assert unknown is None
    assert seen_at == later
    assert seen_at is not None
    assert seen_at < time.time() - 0.1


def test_start_offset_of_a_topic_overrules_the_group() -> None:
    async def scenario() -> tuple[list[int], int | None]:
        rig = Rig(FakeThread({NUMBERS: range(10)}))
        rig.app.producer.flush = _nothing
        rig.thread.committed = {NUMBERS: 8}
        rig.app.read_from("numbers", lambda tp: 3)
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.2)
        received = rig.received()
        for message in rig.messages[:2]:
            message.ack(rig.consumer)
        await rig.consumer.commit()
        return received, rig.thread.commits.get(NUMBERS)

    assert run(scenario) == (list(range(3, 10)), 5)


def test_start_offset_beyond_the_end_stops_with_a_reason() -> None:
    async def scenario() -> None:
        rig = Rig(FakeThread({NUMBERS: range(10)}))
        rig.app.read_from("numbers", lambda tp: 11)
        await rig.consumer.perform_seek()

    with pytest.raises(LostDataError, match="numbers/0 ends at offset 10, but offset 11 is the next to read"):
        run(scenario)


async def _overtaken(rig: Rig) -> list[int]:
    """Position 5, deletion below 8, record 8."""
    rig.thread.logs[NUMBERS] = list(range(5))
    rig.thread.ends[NUMBERS] = 5
    await rig.consumer.perform_seek()
    await rig.fetch_for(0.2)
    assert rig.received() == [0, 1, 2, 3, 4]
    rig.thread.logs[NUMBERS], rig.thread.begins = [8], {NUMBERS: 8}
    rig.thread.ends[NUMBERS] = 9
    await rig.fetch_for(0.2)
    return rig.received()


def test_records_deleted_before_they_were_read_stop_the_worker() -> None:
    async def scenario() -> None:
        rig = Rig(FakeThread({NUMBERS: []}))
        try:
            await _overtaken(rig)
        finally:
            assert rig.received() == []

    with pytest.raises(LostDataError, match=r"^numbers/0: offsets 5 to 7 were deleted before they were read.*replay"):
        run(scenario)


def test_lost_records_that_nothing_rests_on_are_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: []}))
        rig.app.pass_over_lost("numbers")
        return await _overtaken(rig)

    assert run(scenario) == [8]
    assert "numbers/0: offsets 5 to 7 were deleted unread" in caplog.text


@pytest.mark.parametrize(("known_up_to", "is_lost"), [(8, False), (9, False), (7, True)])
def test_deleted_records_that_the_worker_has_had_otherwise_are_not_lost(known_up_to: int, is_lost: bool) -> None:
    """It knows its own messages before it reads them, commits them, and has them deleted."""

    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: []}))
        known = [0, known_up_to]
        rig.app.read_from("numbers", lambda tp: known.pop(0))
        return await _overtaken(rig)

    if is_lost:
        with pytest.raises(LostDataError, match="offsets 5 to 7 were deleted before they were read"):
            run(scenario)
    else:
        assert run(scenario) == [8]


def test_topic_cut_short_while_it_is_read_stops_the_worker() -> None:
    async def scenario() -> None:
        rig = Rig(FakeThread({NUMBERS: range(6)}))
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.2)
        rig.thread.ends[NUMBERS] = 2
        await rig.consumer._out_of_range(NUMBERS, 6)

    with pytest.raises(LostDataError, match="numbers/0 ends at offset 2, but offset 6 is the next to read"):
        run(scenario)


def test_offset_of_before_a_seek_that_is_out_of_range_changes_nothing() -> None:
    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: range(3, 6)}))
        rig.thread.begins = {NUMBERS: 3}
        await rig.consumer.perform_seek()
        await rig.consumer._out_of_range(NUMBERS, 0)
        await rig.fetch_for(0.2)
        return rig.received()

    assert run(scenario) == [3, 4, 5]


def test_rewind_drops_the_queue_and_reads_again() -> None:
    async def scenario() -> tuple[list[int], list[int]]:
        rig = Rig(FakeThread({NUMBERS: range(6)}))
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.1)
        rig.app.read_from("numbers", lambda tp: 1)
        await rig.app.read_again(NUMBERS)
        dropped = rig.received()
        await rig.fetch_for(0.1)
        return dropped, rig.received()

    assert run(scenario) == ([], [1, 2, 3, 4, 5])


def test_rewind_during_a_fetch_does_not_take_the_fetch_for_a_hole() -> None:
    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: range(8)}))
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.1)
        rig.received()
        rig.thread.logs[NUMBERS] += [8, 9]
        rig.thread.ends[NUMBERS] = 10
        getmany = rig.thread.getmany

        async def rewound_meanwhile(active: set[TP], timeout: float) -> Any:
            rig.thread.getmany = getmany  # type: ignore[method-assign]
            fetch = await getmany(active, timeout)
            await rig.consumer.rewind(NUMBERS, 5)
            return fetch

        rig.thread.getmany = rewound_meanwhile  # type: ignore[method-assign]
        await rig.fetch_for(0.2)
        return rig.received()

    assert run(scenario) == [5, 6, 7, 8, 9]


def test_full_queue_holds_fetching_back_until_there_is_room() -> None:
    async def scenario() -> tuple[int, list[int]]:
        rig = Rig(FakeThread({NUMBERS: range(40)}), stream_buffer_maxsize=8)
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.1)
        held = rig.queue.qsize()
        received = rig.received()
        for _ in range(8):
            await rig.fetch_for(0.05)
            received += rig.received()
        return held, received

    held, received = run(scenario)
    assert 8 <= held < 8 + 4
    assert received == list(range(40))


def test_bytes_that_wait_stay_within_the_bound_and_one_fetch_however_long_the_log_is() -> None:
    size, bound = 2_000, 20_000

    async def scenario() -> tuple[list[int], list[int]]:
        thread = FakeThread({NUMBERS: range(120)})
        thread.value = bytes(size - RECORD_OVERHEAD_BYTES)
        rig = Rig(thread, options=TransportOptions(buffer_bytes=bound))
        await rig.consumer.perform_seek()
        received: list[int] = []
        held: list[int] = []
        while len(received) < 120:
            for _ in range(4):
                await rig.consumer._fetch_once()
            held.append(rig.queue.bytes)
            received += [rig.queue.get_nowait().message.offset for _ in range(min(7, rig.queue.qsize()))]
        return received, held

    received, held = run(scenario)
    assert received == list(range(120))
    assert bound <= max(held) < bound + 4 * size


def test_acknowledged_records_are_committed_when_partitions_are_revoked() -> None:
    """Stock forgets what was acknowledged before it commits, so that it comes again."""

    async def scenario(*, stock: bool) -> int | None:
        rig = Rig(FakeThread({NUMBERS: range(6)}), stock=stock)
        rig.app.producer.flush = _nothing
        await rig.consumer.perform_seek()
        await rig.fetch_for(0.1)
        rig.received()
        for message in rig.messages:
            message.ack(rig.consumer)
        await rig.consumer.on_partitions_revoked({NUMBERS})
        return rig.thread.commits.get(NUMBERS)

    assert run(lambda: scenario(stock=False)) == 6
    assert run(lambda: scenario(stock=True)) is None, "stock commits these now: is the repair still needed?"


Fate = st.sampled_from(["handed on", "lost in the client", "generation changed", "rebalance began"])


@settings(max_examples=50, deadline=None)
@given(
    offsets=st.sets(st.integers(0, 60), max_size=40),
    trailing=st.integers(0, 3),
    fates=st.lists(Fate, max_size=20),
    start=st.integers(0, 30),
)
def test_every_record_is_handed_on_once_and_in_order_whatever_happens_to_fetches(
    offsets: set[int], trailing: int, fates: list[str], start: int
) -> None:
    end = max(offsets, default=-1) + 1 + trailing

    async def scenario() -> list[int]:
        rig = Rig(FakeThread({NUMBERS: offsets}, ends={NUMBERS: end}))
        consumer, app, thread = rig.consumer, rig.app, rig.thread
        app.read_from("numbers", lambda tp: min(start, end))
        await consumer.perform_seek()
        getmany = thread.getmany
        received: list[int] = []
        for fate in fates:
            if fate == "lost in the client":
                thread.take([NUMBERS])
            elif fate != "handed on":

                async def interrupted(active: set[TP], timeout: float, fate: str = fate) -> Any:
                    fetch = await getmany(active, timeout)
                    app.consumer_generation_id += fate == "generation changed"
                    app.rebalancing = fate == "rebalance began"
                    return fetch

                thread.getmany = interrupted  # type: ignore[method-assign]
            await consumer._fetch_once()
            thread.getmany = getmany  # type: ignore[method-assign]
            app.rebalancing = False
            received += rig.received()
        for _ in range(70):
            await consumer._fetch_once()
            received += rig.received()
            if app.end_seen_at(NUMBERS):
                break
        else:
            raise AssertionError(f"never reached the end: {consumer.positions.all()} of {end}")
        return received

    assert run(scenario) == [offset for offset in sorted(offsets) if offset >= min(start, end)]
