"""Whatever makes ownership doubtful closes the fence; closing waits for who is inside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from stream_tgat.errors import FencedError
from stream_tgat.transport.fence import Fence


class Group:
    """A coordinator's view."""

    generation = 3


def _fence(group: Group, exit_process: Callable[[str], object] = pytest.fail) -> Fence:
    return Fence(lambda: group.generation, session_s=10.0, heartbeat_limit=0.5, exit_process=exit_process)


def _open_fence() -> tuple[Fence, Group]:
    group = Group()
    fence = _fence(group)
    fence.beat(time.monotonic())
    fence.open(3)
    return fence, group


def test_open_fence_lets_pass() -> None:
    fence, _ = _open_fence()
    fence.check()


def test_fence_that_was_never_opened_refuses() -> None:
    fence = _fence(Group())
    fence.beat(time.monotonic())
    with pytest.raises(FencedError, match="rebalancing"):
        fence.check("partition 7")


def test_changed_generation_refuses() -> None:
    fence, group = _open_fence()
    group.generation = -1
    with pytest.raises(FencedError, match=r"partition 7: the group is at generation -1, this worker at 3"):
        fence.check("partition 7")


def test_stale_heartbeat_refuses_and_a_new_one_does_not() -> None:
    group = Group()
    fence = _fence(group)
    fence.beat(time.monotonic() - 6)
    fence.open(3)
    with pytest.raises(FencedError, match=r"no heartbeat for 6\.\d s \(limit 5\.0 s\)"):
        fence.check()
    fence.beat(time.monotonic())
    fence.check()


def test_late_news_of_an_old_heartbeat_does_not_make_the_last_one_older() -> None:
    fence, _ = _open_fence()
    fence.beat(time.monotonic() - 100)
    assert fence.heartbeat_age_s < 1


def test_close_waits_for_commits_under_way_and_refuses_new_ones() -> None:
    async def scenario() -> list[str]:
        fence, _ = _open_fence()
        happened = []

        async def commit() -> None:
            with fence.passing("p"):
                await asyncio.sleep(0.05)
                happened.append("committed")

        async def late_commit() -> None:
            await asyncio.sleep(0.01)
            try:
                with fence.passing("p"):
                    happened.append("late commit")
            except FencedError:
                happened.append("refused")

        async def close() -> None:
            await asyncio.sleep(0)
            await fence.close()
            happened.append("closed")

        await asyncio.gather(commit(), close(), late_commit())
        return happened

    assert asyncio.run(scenario()) == ["refused", "committed", "closed"]


def test_what_is_left_is_committed_while_the_partitions_are_handed_over_and_not_after() -> None:
    async def scenario() -> None:
        fence, _ = _open_fence()
        fence.last_call()
        assert not fence.is_open
        fence.check()
        await fence.close()
        with pytest.raises(FencedError):
            fence.check()

    asyncio.run(scenario())


def test_failed_commit_releases_the_fence() -> None:
    async def scenario() -> None:
        fence, _ = _open_fence()
        with pytest.raises(ZeroDivisionError), fence.passing():
            raise ZeroDivisionError
        await asyncio.wait_for(fence.close(), 1)

    asyncio.run(scenario())


def test_append_that_is_acknowledged_in_time_passes_the_guard() -> None:
    async def append() -> int:
        await asyncio.sleep(0.05)
        return 7

    fence, _ = _open_fence()
    assert asyncio.run(fence.guard(append())) == 7


def test_error_of_an_append_passes_the_guard() -> None:
    async def append() -> int:
        raise FencedError("no")

    fence, _ = _open_fence()
    with pytest.raises(FencedError, match="no"):
        asyncio.run(fence.guard(append()))


def test_append_still_under_way_when_the_session_may_end_ends_the_process() -> None:
    """Its batch would be repeated until it lands, whoever owns the log by then."""

    class ExitedError(Exception):
        pass

    def leave(reason: str) -> None:
        raise ExitedError(reason)

    async def scenario() -> float:
        fence = _fence(Group(), leave)
        fence.beat(time.monotonic() - 8.9)
        began = time.monotonic()
        with pytest.raises(ExitedError, match=r"not acknowledged and the last heartbeat is 9\.\d s old"):
            await fence.guard(asyncio.get_running_loop().create_future())
        return time.monotonic() - began

    assert 0.05 < asyncio.run(scenario()) < 2


def test_append_that_takes_long_waits_while_heartbeats_go_on() -> None:
    async def scenario() -> int:
        fence = _fence(Group())
        fence.session_s = 0.2
        fence.beat(time.monotonic())

        async def append() -> int:
            for _ in range(10):
                await asyncio.sleep(0.05)
                fence.beat(time.monotonic())
            return 3

        return await fence.guard(append())

    assert asyncio.run(scenario()) == 3
