"""What happens, to everybody who looks: each reader has a bounded queue, and loses the oldest where it is slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

QUEUE: Final = 64
"""Messages that wait for one reader."""
MOST_READERS: Final = 100

Message = tuple[str, str]
"""The kind of what happened, and JSON."""


class _Subscriber:
    def __init__(self) -> None:
        self.waiting: deque[Message] = deque(maxlen=QUEUE)
        self.lost = 0
        self.wake = asyncio.Event()


class Broadcast:
    """Hands messages to readers; used in one event loop."""

    def __init__(self) -> None:
        self._readers: set[_Subscriber] = set()
        self._closed = False
        self.lost = 0

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)

    def send(self, kind: str, content: str) -> None:
        """To all who read now."""
        for reader in self._readers:
            if len(reader.waiting) == QUEUE:
                reader.lost += 1
                self.lost += 1
            reader.waiting.append((kind, content))
            reader.wake.set()

    async def read(self) -> AsyncIterator[Message]:
        """Messages from now on; ("lost", count) where some went by unread. Ends when it is closed."""
        reader = _Subscriber()
        self._readers.add(reader)
        try:
            while not self._closed:
                reader.wake.clear()
                while reader.waiting:
                    if reader.lost:
                        lost, reader.lost = reader.lost, 0
                        yield "lost", str(lost)
                    yield reader.waiting.popleft()
                await reader.wake.wait()
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """Let all readers end."""
        self._closed = True
        for reader in self._readers:
            reader.wake.set()
