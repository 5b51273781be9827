"""The fence: nothing is committed by a worker that may no longer own what it commits to.

A worker that was slow, stopped or cut off learns only from the group coordinator that its partitions went to someone
else. So before each commit three things must hold: the coordinator has answered a heartbeat recently, the generation
of the group is still the one under which the partitions were recovered, and the partition is among them. When the
partitions are handed over, what is left is committed, then the fence is closed, which waits for commits under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from stream_tgat.errors import FencedError

T = TypeVar("T")

SESSION_MARGIN = 0.9


class Fence:
    """Says whether this worker still owns its partitions.

    `generation` returns the coordinator's current generation. No commit begins once the last heartbeat is older than
    the part `heartbeat_limit` of the session timeout, since the coordinator counts from the last heartbeat it saw.
    """

    def __init__(
        self,
        generation: Callable[[], int],
        *,
        session_s: float,
        heartbeat_limit: float,
        exit_process: Callable[[str], object],
    ) -> None:
        self.session_s = session_s
        self.heartbeat_limit_s = session_s * heartbeat_limit
        self._exit = exit_process
        self._current_generation = generation
        self._generation = -1
        self._opened = False
        self._last_call = False
        self._last_heartbeat = -float("inf")
        self._held = 0
        self._released = asyncio.Event()
        self._released.set()

    @property
    def is_open(self) -> bool:
        """Whether the partitions are recovered and not being handed over."""
        return self._opened and not self._last_call

    @property
    def current_generation(self) -> int:
        """The generation of the group as its coordinator has it now; -1 outside of it."""
        return self._current_generation()

    @property
    def heartbeat_age_s(self) -> float:
        """Seconds since a heartbeat was sent that the coordinator accepted."""
        return time.monotonic() - self._last_heartbeat

    def beat(self, sent_at: float) -> None:
        """Note a heartbeat that was sent at a monotonic time and accepted (called from the consumer's thread)."""
        self._last_heartbeat = max(self._last_heartbeat, sent_at)

    def open(self, generation: int) -> None:
        """Let commits through: all partitions of this generation are recovered."""
        self._generation = generation
        self._opened, self._last_call = True, False

    def last_call(self) -> None:
        """Say that the partitions are being handed over; what is left to commit still passes until `close`."""
        self._last_call = True

    async def close(self) -> None:
        """Refuse commits from now on, and wait for those that have passed."""
        self._opened = False
        await self._released.wait()

    def check(self, what: str = "this worker's partitions") -> None:
        """Raise FencedError unless a commit to `what` may begin now."""
        if not self._opened:
            raise FencedError(f"{what}: the group is rebalancing; the partition is recovered and read again")
        current = self._current_generation()
        if current != self._generation:
            raise FencedError(f"{what}: the group is at generation {current}, this worker at {self._generation}")
        if self.heartbeat_age_s > self.heartbeat_limit_s:
            raise FencedError(
                f"{what}: no heartbeat for {self.heartbeat_age_s:.1f} s (limit {self.heartbeat_limit_s:.1f} s); "
                "another worker may own the partition"
            )

    @contextmanager
    def passing(self, what: str = "this worker's partitions") -> Iterator[None]:
        """Check, and keep `close` waiting until the block is left."""
        self.check(what)
        self._held += 1
        self._released.clear()
        try:
            yield
        finally:
            self._held -= 1
            if self._held == 0:
                self._released.set()

    async def guard(self, append: Awaitable[T]) -> T:
        """Await an append, and end the process if the session may expire before it is acknowledged.

        The client repeats an unacknowledged batch for as long as it lives. After a cut in the network that would be
        into a log that has a new owner by then; the only way to take the batch back is to be gone.
        """
        pending = asyncio.ensure_future(append)
        while True:
            left_s = self.session_s * SESSION_MARGIN - self.heartbeat_age_s
            if left_s <= 0 and not pending.done():
                self._exit(
                    f"an append was not acknowledged and the last heartbeat is {self.heartbeat_age_s:.1f} s old: the "
                    "process ends, so that the append cannot reach the log after a new owner"
                )
            await asyncio.wait([pending], timeout=max(left_s, 0.01))
            if pending.done():
                return pending.result()
