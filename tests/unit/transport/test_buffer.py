"""The queue counts what it holds, also when Faust clears it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from faust.types import TP
from mode.utils.queues import FlowControlEvent

from stream_tgat.transport.buffer import RECORD_OVERHEAD_BYTES, BulkQueue

ONE, TWO = TP("t", 1), TP("t", 2)


@dataclass
class Message:
    tp: TP
    value: bytes | None


@dataclass
class Event:
    message: Message


def _queue(**options: int) -> BulkQueue:
    queue = BulkQueue(options.get("maxsize", 0), max_bytes=options.get("max_bytes", 10**6), flow_control=_flow())
    for tp, value in ((ONE, b"abc"), (TWO, None), (ONE, b"d")):
        queue.force_put_nowait(Event(Message(tp, value)))
    return queue


def _flow() -> FlowControlEvent:
    return FlowControlEvent(initially_suspended=False)


def test_queue_counts_bytes_and_records_of_each_partition() -> None:
    async def scenario() -> list[object]:
        queue = _queue()
        seen: list[object] = [queue.bytes - 3 * RECORD_OVERHEAD_BYTES, queue.waiting(ONE), queue.waiting(TWO)]
        queue.get_nowait()
        seen += [queue.bytes - 2 * RECORD_OVERHEAD_BYTES, queue.waiting(ONE)]
        queue.clear()
        return [*seen, queue.bytes, queue.waiting(ONE), queue.waiting(TWO)]

    assert asyncio.run(scenario()) == [4, 2, 1, 1, 1, 0, 0, 0]


def test_queue_has_room_until_records_or_bytes_run_out() -> None:
    async def scenario() -> list[bool]:
        return [
            _queue().has_room(),
            _queue(maxsize=3).has_room(),
            _queue(maxsize=4).has_room(),
            _queue(max_bytes=3 * RECORD_OVERHEAD_BYTES + 4).has_room(),
            _queue(max_bytes=3 * RECORD_OVERHEAD_BYTES + 5).has_room(),
        ]

    assert asyncio.run(scenario()) == [True, False, True, False, True]


def test_discard_drops_one_partition_and_keeps_the_order_of_others() -> None:
    async def scenario() -> tuple[list[bytes | None], int]:
        queue = _queue()
        queue.force_put_nowait(Event(Message(TWO, b"e")))
        queue.discard(ONE)
        count = queue.waiting(ONE)
        return [queue.get_nowait().message.value for _ in range(queue.qsize())], count

    assert asyncio.run(scenario()) == ([None, b"e"], 0)
