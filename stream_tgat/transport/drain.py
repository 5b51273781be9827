"""Taking records from a stream in batches, and giving them back acknowledged.

An agent drains its stream, does its work on the whole batch, commits, and acknowledges. Nothing is acknowledged on the
way: a batch that was neither acknowledged nor abandoned is read again after the next rebalance or start.

    @app.agent(topic)
    async def agent(stream):
        async for batch in drain(stream, limit=512, idle_s=0.05):
            ...                                  # [] when nothing came for idle_s
            app.acknowledge(batch)

An exception that leaves an agent stops the worker (see Application): the batch is not lost, it is read again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from faust.types.tuples import Message

from stream_tgat.transport.buffer import WAKE

DEFAULT_MAX_BYTES = 4 * 2**20


async def drain(
    stream: Any,
    limit: int,
    *,
    idle_s: float | Callable[[], float] | None = None,
    busy: Callable[[], bool] | None = None,
    pace_s: float = 0.0,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> AsyncIterator[list[Message]]:
    """Batches of up to `limit` records (or about `max_bytes` of values) of an agent's stream, in order per partition.

    Messages have topic, partition, tp, offset, key, value, headers (pairs) and timestamp (seconds). Records of several
    partitions may be mixed in a batch. Those of an earlier generation of the group are skipped.

    With `idle_s` an empty batch is yielded whenever nothing came for that long, which is asked anew each time; while
    `busy()` is true it is yielded at once, so that an agent with work in hand goes on without input. Nothing is yielded
    while partitions are being handed over or recovered. `stream.channel.queue.wake()` ends a wait early. With `pace_s`
    batches begin at least that far apart unless `busy()`, so that what trickles in is handled in batches too; after one
    that took long the agent rests for half as long, at most `pace_s`: the more there is to do, the more goes into one
    batch.
    """
    app = stream.app
    queue = stream.channel.queue
    await stream.maybe_start()
    begun = time.monotonic() - pace_s
    while not app.should_stop:
        if pace_s and (busy is None or not busy()):
            took = time.monotonic() - begun
            await asyncio.sleep(max(pace_s - took, min(took / 2, pace_s)))
        item = WAKE
        try:
            if not queue.empty():
                item = queue.get_nowait()
            elif busy is None or not app.fence.is_open or not busy():
                item = await _wait(queue, idle_s() if callable(idle_s) else idle_s)
        except StopAsyncIteration:
            # What Faust throws into a stream to end it.
            return
        begun = time.monotonic()
        batch = _take(app, queue, item, limit, max_bytes)
        if batch or app.fence.is_open:
            yield batch
        # Others must run even if the stream never is empty or the agent never waits.
        await asyncio.sleep(0)


async def _wait(queue: Any, idle_s: float | None) -> Any:
    """The next item of an empty queue; WAKE after idle_s."""
    if idle_s is None:
        return await queue.get()
    loop = asyncio.get_running_loop()

    timers: list[asyncio.TimerHandle] = []

    def tick() -> None:
        # Faust may clear the queue between a tick and the reader waking up, so ticks repeat until one is read.
        if timers and queue.empty():
            queue.wake()
        timers[:] = [loop.call_later(idle_s, tick)]

    tick()
    try:
        return await queue.get()
    finally:
        timers[0].cancel()


def _take(app: Any, queue: Any, item: Any, limit: int, max_bytes: int) -> list[Message]:
    generation = app.consumer_generation_id
    active = app.flow_control.is_active()
    batch: list[Message] = []
    size = 0
    while True:
        if item is not WAKE and active and item.message.generation_id == generation:
            batch.append(item.message)
            size += len(item.message.value or b"")
        if len(batch) >= limit or size >= max_bytes or queue.empty():
            break
        item = queue.get_nowait()
    if batch:
        app.consumer.begin(batch)
    return batch
