"""The process of a worker: how it hears signals, how it ends, and how it begins anew."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import faust
from mode.utils.futures import all_tasks
from mode.utils.logging import level_number

from stream_tgat.logs import LogFormat, begin, one_line
from stream_tgat.transport.complaints import Complaints
from stream_tgat.transport.watchdog import exit_process

_STDERR: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LAST_TASKS_S: Final = 1.0
_FOLDER: Final = Path.cwd()
_is_asked_to_leave = False
#: Of the log of this process.
_format: LogFormat = "text"


class WorkerProcess(faust.Worker):
    """Faust's worker, which a second signal ends at once, and which ends without a rest of two seconds."""

    def begin_log(self, wanted: LogFormat) -> None:
        """Write the log in this format from now on, in place of Faust, which would begin later and draw tables."""
        global _format
        _format = wanted
        self.override_logging, self.spinner = False, None
        begin(wanted, level_number(self.loglevel or "WARN"), file=self.logfile).addFilter(Complaints())

    def say(self, msg: str) -> None:
        """Keep silent: what Faust would write to the terminal beside the log is told in the log."""

    def _install_signal_handlers_unix(self) -> None:
        super()._install_signal_handlers_unix()
        for number in _SIGNALS:
            self.loop.remove_signal_handler(number)
        _heed(self._hear)

    def _hear(self, number: int, frame: Any) -> None:  # noqa: ARG002
        # Faust ignores all signals but the first.
        _heed(_end_at_once)
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._schedule_shutdown, signal.Signals(number))

    def _gather_all(self) -> None:
        # Faust sleeps a second while any task is left, and another one after it has cancelled them.
        tasks = all_tasks(loop=self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TASKS_S))

    async def _sentinel_task(self) -> None:
        await asyncio.sleep(0)


def begin_anew(reason: str) -> NoReturn:
    """Become a new process with the same id, command line and environment, as after a crash.

    This is as strict as an exit: threads are gone, and sockets, files and locks closed, before the new one begins.
    """
    say(f"The worker begins anew: {reason}")
    try:
        os.chdir(_FOLDER)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606
    except OSError as problem:
        exit_process(f"{reason}; the worker cannot begin anew: {problem}")


def end(status: int, said: str) -> NoReturn:
    """End the process here and now."""
    say(said)
    os._exit(status)


def say(line: str, level: int = logging.WARNING) -> None:
    """A line to the standard error itself, in the format of the log: the loop may hang, and the process may end now."""
    os.write(_STDERR, f"{one_line(_format, level, line) if _format == 'json' else line}\n".encode())


def end_quietly_on_signals() -> None:
    """End with status 0 on a signal, while nothing has begun that must be finished; a second one ends at once."""
    _heed(_leave)


def _heed(handler: Any) -> None:
    """Let a handler hear signals; not one of the loop, since a busy loop takes two signals for one, and may hang.

    The default would not end the first process of a container.
    """
    for number in _SIGNALS:
        signal.signal(number, handler)


def leave_if_asked() -> None:
    """End if a signal has come before the worker began: what it raises may be lost, as in a callback of a library."""
    if _is_asked_to_leave:
        raise SystemExit(0)


def _leave(number: int, frame: Any) -> NoReturn:  # noqa: ARG001
    global _is_asked_to_leave
    _is_asked_to_leave = True
    _heed(_end_at_once)
    raise SystemExit(0)


def _end_at_once(number: int, frame: Any) -> NoReturn:  # noqa: ARG001
    end(128 + number, "Ended by a second signal, in the middle of its work: the next worker does that again")
