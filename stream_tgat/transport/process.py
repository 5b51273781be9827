"""The process of a worker: how it hears signals and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Final

import faust
from mode.utils.futures import all_tasks

_STDERR: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LAST_TASKS_S: Final = 1.0


class WorkerProcess(faust.Worker):
    """Faust's worker, which a second signal ends at once, and which ends without a rest of two seconds."""

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        super()._schedule_shutdown(signal)
        _heed_the_next_signal(self.loop)

    def _gather_all(self) -> None:
        # Faust sleeps a second while any task is left, and another one after it has cancelled them.
        tasks = all_tasks(loop=self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TASKS_S))

    async def _sentinel_task(self) -> None:
        await asyncio.sleep(0)


def _heed_the_next_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Faust ignores all signals but the first. A handler outside of the loop is heard even when the loop hangs."""
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: Any) -> None:  # noqa: ARG001
    os.write(_STDERR, b"Ended by a second signal, in the middle of its work: the next worker does that again\n")
    os._exit(128 + number)
