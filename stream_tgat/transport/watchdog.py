"""The watchdog: a worker that has work and does none stops, so that another one takes over.

A consumer can stop without an error, a client can wait for ever, and the event loop itself can hang. Such a worker
keeps its heartbeats, and with them its partitions. Exit is the only cure that always works.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from typing import Any, NoReturn

from mode import Service, get_logger

from stream_tgat.errors import StalledError, StreamTgatError

EXIT_STATUS = 70
GRACE_S = 20.0
# Whoever sends SIGTERM kills after ten seconds, and nothing is lost with what is cut off.
STOP_GRACE_S = 8.5
LOOK_S = 0.5
STDERR = 2

logger = get_logger(__name__)


class Watchdog(Service):
    """Compares progress with backlog, in the event loop; a thread beside it watches the loop, and how it ends."""

    logger = logger

    def __init__(self, app: Any, stall_s: float, **options: Any) -> None:
        self.app = app
        self.stall_s = stall_s
        self._progressed_at = time.monotonic()
        self._looked_at = time.monotonic()
        self._deadline: float | None = None
        self._seen: Any = None
        super().__init__(**options)

    def progress(self) -> None:
        """Note that something was processed."""
        self._progressed_at = time.monotonic()

    async def on_start(self) -> None:
        """Start to watch."""
        self._looked_at = self._progressed_at = time.monotonic()
        threading.Thread(target=self._watch_loop, name="watchdog", daemon=True).start()

    @Service.task
    async def _watch(self) -> None:
        interval = min(self.stall_s / 4, 5.0)
        async for _ in self.itertimer(interval, name="watchdog"):
            self._looked_at = time.monotonic()
            reason = self.look()
            if reason is not None:
                self.log.critical("%s: the worker stops", reason)
                await self.app.crash(StalledError(reason))
                return

    def look(self) -> str | None:
        """Why the worker must stop; None if all is well."""
        now = time.monotonic()
        state = self.app.processing_state()
        if state != self._seen:
            self._seen = state
            self._progressed_at = now
        backlog = self.app.backlog()
        if not backlog and not self.app.rebalancing:
            self._progressed_at = now
        idle_s = now - self._progressed_at
        if idle_s <= self.stall_s:
            return None
        what = "the rebalance has not ended" if self.app.rebalancing else f"{backlog} records wait"
        return f"no progress for {idle_s:.0f} s although {what}"

    def _watch_loop(self) -> None:
        while True:
            time.sleep(min(self.stall_s / 4, LOOK_S))
            now = time.monotonic()
            if self._deadline is None and self.app.should_stop:
                self._deadline = now + (GRACE_S if self.app.crashed else STOP_GRACE_S)
            if self._deadline is None and now - self._looked_at > self.stall_s + GRACE_S:
                exit_process("the event loop hangs")
            if self._deadline is not None and now > self._deadline:
                exit_process("the shutdown does not end", self.app.crash_reason)


def exit_process(reason: str, crash: BaseException | None = None) -> NoReturn:
    """End the process here and now, with a non-zero status and its last words.

    crash: why it was to stop anyway. An error of ours says all, and where it was waiting would hide that.
    """
    try:
        # Faust has replaced sys.stderr by a logger, which may wait for the very loop that hangs.
        os.write(STDERR, f"watchdog: {reason}; exit {EXIT_STATUS}\n".encode())
        if isinstance(crash, StreamTgatError):
            os.write(STDERR, f"Error: {crash}\n".encode())
        else:
            faulthandler.dump_traceback(STDERR, all_threads=True)
    finally:
        os._exit(EXIT_STATUS)
