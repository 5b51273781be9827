"""The queue between the consumer and a stream.

It is what bounds the memory of a worker: the consumer asks the broker for more records of a partition only while the
queues that take them have room. Faust counts records; a packed record can be a megabyte, so this one counts bytes too.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from faust.types import TP
from mode.utils.queues import ThrowableQueue

WAKE = object()
"""Put into a queue to wake whoever waits for a record; carries nothing."""

RECORD_OVERHEAD_BYTES = 600
"""What one small record costs in memory beside its value."""


class BulkQueue(ThrowableQueue):
    """A Faust queue that knows how many bytes it holds, and how many records of each partition."""

    def __init__(self, maxsize: int, *, max_bytes: int, **options: Any) -> None:
        super().__init__(maxsize, **options)
        self.max_bytes = max_bytes
        self.bytes = 0
        self._waiting: Counter[TP] = Counter()

    def has_room(self) -> bool:
        """Whether another fetch may be asked for."""
        return self.bytes < self.max_bytes and (self.maxsize <= 0 or self.qsize() < self.maxsize)

    def waiting(self, tp: TP) -> int:
        """How many records of a partition are in the queue."""
        return self._waiting[tp]

    def wake(self) -> None:
        """Wake the stream that waits for this queue, without a record."""
        self.force_put_nowait(WAKE)

    def discard(self, tp: TP) -> None:
        """Drop all records of a partition: they will be read again."""
        kept = [item for item in self._queue if _message_tp(item) != tp]
        self.clear()
        for item in kept:
            self._put(item)

    def clear(self) -> None:
        """Drop everything (Faust does so when partitions are revoked)."""
        super().clear()
        self.bytes = 0
        self._waiting.clear()

    def _init(self, maxsize: int) -> None:  # noqa: ARG002
        self._queue: deque[Any] = deque()

    def _put(self, item: Any) -> None:
        self._queue.append(item)
        message = getattr(item, "message", None)
        if message is not None:
            self.bytes += RECORD_OVERHEAD_BYTES + len(message.value or b"")
            self._waiting[message.tp] += 1

    def _get(self) -> Any:
        item = self._queue.popleft()
        message = getattr(item, "message", None)
        if message is not None:
            self.bytes -= RECORD_OVERHEAD_BYTES + len(message.value or b"")
            self._waiting[message.tp] -= 1
        return item


def _message_tp(item: Any) -> TP | None:
    message = getattr(item, "message", None)
    return None if message is None else message.tp
