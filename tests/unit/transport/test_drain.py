"""Batches: whole, in order, of this generation only, and empty ones when there is nothing to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from faust.types import TP

from stream_tgat.transport import drain
from tests.unit.transport.fake_client import NUMBERS, FakeThread, Rig


class Stream:
    """What drain needs of a stream."""

    def __init__(self, rig: Rig) -> None:
        self.app = rig.app
        self.channel = rig.channel

    async def maybe_start(self) -> None:
        pass


async def _rig(count: int, *, fence_open: bool = True) -> Rig:
    rig = Rig(FakeThread({NUMBERS: range(count), TP("numbers", 1): []}))
    await rig.consumer.perform_seek()
    await rig.fetch_for(0.1)
    if fence_open:
        rig.app.fence.open(1)
    return rig


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario(), 10))


async def _batches(rig: Rig, count: int, limit: int = 4, **options: Any) -> list[list[int]]:
    found: list[list[int]] = []
    async for batch in drain(Stream(rig), limit, **options):
        found.append([message.offset for message in batch])
        if len(found) == count:
            break
    return found


def test_batches_are_full_until_the_queue_is_empty() -> None:
    async def scenario() -> list[list[int]]:
        return await _batches(await _rig(10), 3)

    assert run(scenario) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_batch_ends_once_it_has_enough_bytes() -> None:
    async def scenario() -> list[list[int]]:
        return await _batches(await _rig(4), 2, max_bytes=2)

    assert run(scenario) == [[0, 1], [2, 3]]


def test_empty_batches_come_while_nothing_does() -> None:
    async def scenario() -> tuple[list[list[int]], float]:
        rig = await _rig(1)
        began = asyncio.get_running_loop().time()
        found = await _batches(rig, 4, idle_s=0.04)
        return found, asyncio.get_running_loop().time() - began

    found, took_s = run(scenario)
    assert found == [[0], [], [], []]
    assert 0.1 < took_s < 1


def test_idle_stream_survives_its_queue_being_cleared() -> None:
    """Faust clears queues when a rebalance ends; a tick must not get lost with it."""

    async def scenario() -> list[list[int]]:
        rig = await _rig(0)

        async def clear() -> None:
            while True:
                rig.queue.clear()
                await asyncio.sleep(0.0005)

        clearing = asyncio.ensure_future(clear())
        found = await _batches(rig, 2, idle_s=0.01)
        clearing.cancel()
        return found

    assert run(scenario) == [[], []]


def test_no_empty_batch_comes_while_partitions_are_handed_over() -> None:
    async def scenario() -> list[list[int]]:
        rig = await _rig(0, fence_open=False)
        asyncio.get_running_loop().call_later(0.2, rig.app.fence.open, 1)
        began = asyncio.get_running_loop().time()
        found = await _batches(rig, 1, idle_s=0.01, busy=lambda: True)
        assert asyncio.get_running_loop().time() - began > 0.15
        return found

    assert run(scenario) == [[]]


def test_busy_agent_goes_on_without_waiting_and_lets_others_run() -> None:
    async def scenario() -> tuple[list[list[int]], float]:
        rig = await _rig(2)
        began = asyncio.get_running_loop().time()
        found = await _batches(rig, 50, idle_s=5.0, busy=lambda: True)
        return found, asyncio.get_running_loop().time() - began

    found, took_s = run(scenario)
    assert found == [[0, 1]] + [[]] * 49
    assert took_s < 1


def test_paced_batches_begin_apart_and_after_a_long_one_comes_half_as_long_a_rest() -> None:
    async def scenario() -> list[float]:
        rig = await _rig(4)
        loop = asyncio.get_running_loop()
        rests, ended = [], 0.0
        async for _ in drain(Stream(rig), 1, pace_s=0.1):
            if ended:
                rests.append(loop.time() - ended)
            await asyncio.sleep((0.0, 0.12, 0.5, 0.0)[len(rests)])
            ended = loop.time()
            if len(rests) == 3:
                break
        return rests

    after_none, after_long, after_longest = run(scenario)
    assert after_none > 0.09
    assert after_long > 0.055
    assert after_longest > 0.09


def test_wake_ends_the_wait() -> None:
    async def scenario() -> list[list[int]]:
        rig = await _rig(0)
        asyncio.get_running_loop().call_later(0.05, rig.queue.wake)
        return await _batches(rig, 1)

    assert run(scenario) == [[]]


def test_records_of_an_earlier_generation_are_skipped() -> None:
    async def scenario() -> list[list[int]]:
        rig = await _rig(6)
        for event in list(rig.queue._queue)[:3]:
            event.message.generation_id = 0
        return await _batches(rig, 1)

    assert run(scenario) == [[3, 4, 5]]


def test_drained_records_hold_a_rebalance_up_until_acknowledged_or_abandoned() -> None:
    async def scenario() -> list[int]:
        rig = await _rig(4)
        batches = drain(Stream(rig), 2)
        first, second = await anext(batches), await anext(batches)
        counts = [len(rig.consumer.unacked)]
        rig.app.acknowledge(first)
        counts.append(len(rig.consumer.unacked))
        rig.app.abandon(second)
        return [*counts, len(rig.consumer.unacked)]

    assert run(scenario) == [4, 2, 0]


def test_abandoned_records_are_not_committed() -> None:
    async def scenario() -> int | None:
        rig = await _rig(6)

        async def flush() -> None:
            pass

        rig.app.producer.flush = flush
        batches = drain(Stream(rig), 2)
        rig.app.acknowledge(await anext(batches))
        rig.app.abandon(await anext(batches))
        rig.app.acknowledge(await anext(batches))
        await rig.consumer.commit()
        return rig.thread.commits.get(NUMBERS)

    assert run(scenario) == 2


def test_stream_that_faust_stops_ends() -> None:
    async def scenario() -> list[list[int]]:
        rig = await _rig(0)
        asyncio.get_running_loop().call_later(0.05, rig.queue._throw, StopAsyncIteration())
        return await _batches(rig, 5)

    assert run(scenario) == []
