"""Whatever makes ownership doubtful closes the fence; closing waits for who is inside."""

from __future__ import annotations

import asyncio
import time

import pytest

from stream_tgat.errors import FencedError
from stream_tgat.transport.fence import Fence


class Group:
    """A coordinator's view."""

    generation = 3


def _open_fence() -> tuple[Fence, Group]:
    group = Group()
    fence = Fence(lambda: group.generation, heartbeat_limit_s=5.0)
    fence.beat(time.monotonic())
    fence.open(3)
    return fence, group


def test_open_fence_lets_pass() -> None:
    fence, _ = _open_fence()
    fence.check()


def test_fence_that_was_never_opened_refuses() -> None:
    fence = Fence(lambda: 3, heartbeat_limit_s=5.0)
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
    fence = Fence(lambda: group.generation, heartbeat_limit_s=5.0)
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


def test_failed_commit_releases_the_fence() -> None:
    async def scenario() -> None:
        fence, _ = _open_fence()
        with pytest.raises(ZeroDivisionError), fence.passing():
            raise ZeroDivisionError
        await asyncio.wait_for(fence.close(), 1)

    asyncio.run(scenario())
