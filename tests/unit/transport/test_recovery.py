"""Recovery of one rebalance must not be taken for that of the next."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from faust.types import TP

from stream_tgat.errors import LostDataError, StateError
from stream_tgat.transport import Application


class _Consumer:
    """end: of every changelog, where the next record goes"""

    def __init__(self, end: int = 0) -> None:
        self._end = end

    async def highwaters(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, self._end)

    async def seek_wait(self, offsets: object) -> None:
        """Nothing to seek."""

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, 0)


def test_signal_that_ended_the_last_recovery_does_not_end_the_next() -> None:
    """Faust clears it in a task that whole fetches bypass: after two rebalances within 5 s partitions were empty."""

    async def run() -> bool:
        recovery = Application("app", broker="kafka://127.0.0.1:1").tables.recovery
        recovery.signal_recovery_end.set()
        await recovery._seek_offsets(_Consumer(), set(), Counter(), "active")
        return bool(recovery.signal_recovery_end.is_set())

    assert not asyncio.run(run())


@pytest.mark.parametrize("title", ["active", "standby"])
@pytest.mark.parametrize(("held", "end", "is_ahead"), [(8, 9, False), (8, 8, True), (8, 1, True), (8, 0, True)])
def test_disk_that_is_ahead_of_its_changelog_is_refused_in_one_line(
    title: str, held: int, end: int, is_ahead: bool
) -> None:
    """held: offset that the disk reaches   end: of the changelog, where the next record goes"""

    async def run() -> None:
        app = Application("app", broker="kafka://127.0.0.1:1")
        table = app.bulk_table("graph", partitions=1)
        recovery, tp = app.tables.recovery, TP("app-graph-changelog", 0)
        recovery.tp_to_table[tp] = table
        # Faust has asked for the ends of active partitions by then; those of standbys it knows from long ago.
        recovery.active_highwaters[tp], recovery.standby_highwaters[tp] = end - 1, 2
        await recovery._build_offsets(_Consumer(end), {tp}, Counter({tp: held}), title)

    if is_ahead:
        with pytest.raises(StateError, match=rf"graph.* is ahead .* offset 8 of .*/0, which ends at {end}\..*Delete"):
            asyncio.run(run())
    else:
        asyncio.run(run())


@pytest.mark.parametrize("title", ["active", "standby"])
@pytest.mark.parametrize(("held", "begin", "lost"), [(None, 0, ""), (6, 7, ""), (6, 8, "7 to 7"), (None, 3, "0 to 2")])
def test_changelog_that_begins_behind_the_disk_is_refused(title: str, held: int | None, begin: int, lost: str) -> None:
    """held: offset that the disk reaches, if there is one   begin: of the changelog, below which all was deleted"""

    class Consumer(_Consumer):
        async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
            return dict.fromkeys(tps, begin)

    async def run() -> None:
        app = Application("app", broker="kafka://127.0.0.1:1")
        table = app.bulk_table("graph", partitions=1)
        recovery, tp = app.tables.recovery, TP("app-graph-changelog", 0)
        recovery.tp_to_table[tp] = table
        recovery.active_highwaters[tp] = 20
        await recovery._build_offsets(Consumer(21), {tp}, Counter({tp: held}), title)

    if lost:
        with pytest.raises(LostDataError, match=f"app-graph-changelog/0: offsets {lost} were deleted before"):
            asyncio.run(run())
    else:
        asyncio.run(run())
