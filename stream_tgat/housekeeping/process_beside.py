"""A process that a worker keeps beside it: what renews the model, and the query service.

It is kept alive, and stopped with its worker or once it is wanted no longer. Training lasts for minutes or hours, so
what renews the model has a lower priority; it runs beside the worker that has partition 0, and a lease among all such
processes decides who may work.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

_log = logging.getLogger(__name__)

_FAUST: Final = (sys.executable, "-m", "faust", "-A", "stream_tgat")
RENEWAL: Final = (*_FAUST, "retrain", "--beside-worker")
QUERY_SERVICE: Final = (*_FAUST, "serve", "--beside-worker")

#: A rebalance takes all partitions away for a moment; only then is partition 0 with another worker.
_GONE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0
# Its worker is to end within ten seconds; a process that is killed costs only its own time.
_STOP_S: Final = 5.0


class ProcessBeside:
    """Runs while it is wanted; started again, after ever longer pauses, when it ends by itself."""

    def __init__(self, command: tuple[str, ...], does: str, is_wanted: Callable[[], bool]) -> None:
        """does: what it is for, in the log   is_wanted: whether it is to run now"""
        self._command = command
        self._does = does
        self._is_wanted = is_wanted
        self._process: asyncio.subprocess.Process | None = None
        self._wanted_at = -_GONE_S
        self._pause_s = _FIRST_PAUSE_S
        self._not_before = 0.0
        #: How often it has ended by itself.
        self.failures = 0

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    async def look(self) -> None:
        """Start it if it is wanted and does not run; stop it once it has not been wanted for long."""
        now, wanted = monotonic(), self._is_wanted()
        if wanted:
            self._wanted_at = now
        if self._process is not None and self._process.returncode is not None:
            _log.error(
                "The process that %s has ended with status %d; it is started again in %.0f s",
                self._does,
                self._process.returncode,
                self._pause_s,
            )
            self.failures += 1
            self._process, self._not_before = None, now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        if wanted and self._process is None and now >= self._not_before:
            # Its input ends with this process, however that ends; it stops then.
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=asyncio.subprocess.PIPE)
            _log.info("Process %d %s", self._process.pid, self._does)
        elif not wanted and now - self._wanted_at > _GONE_S:
            await self.stop()

    def kill(self) -> None:
        """End it at once, from any thread: this process becomes another one, which knows of no child."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process.pid, signal.SIGKILL)
                os.waitpid(self._process.pid, 0)

    async def stop(self) -> None:
        """Let it stop, and see to it that it does."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
