"""The process of a worker: how it hears signals and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Final

import faust
from mode.utils.futures import all_tasks

_STDERR: Final = 2
_AT_ONCE: Final = b"Ended by a second signal, in the middle of its work: the next worker does that again\n"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LAST_TASKS_S: Final = 1.0


class WorkerProcess(faust.Worker):
    """Faust's worker, which a second signal ends at once, and which ends without a rest of two seconds."""

    def _install_signal_handlers_unix(self) -> None:
        super()._install_signal_handlers_unix()
        told = False

        def hear(number: int, frame: Any) -> None:  # noqa: ARG001
            nonlocal told
            if told:
                os.write(_STDERR, _AT_ONCE)
                os._exit(128 + number)
            told = True
            self.loop.call_soon_threadsafe(self._schedule_shutdown, signal.Signals(number))

        # Not by the loop: a busy one would take two signals for one, and Faust ignores all but the first.
        for number in _SIGNALS:
            self.loop.remove_signal_handler(number)
            signal.signal(number, hear)

    def _gather_all(self) -> None:
        # Faust sleeps a second while any task is left, and another one after it has cancelled them.
        tasks = all_tasks(loop=self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TASKS_S))

    async def _sentinel_task(self) -> None:
        await asyncio.sleep(0)
