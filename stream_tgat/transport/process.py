"""The process of a worker: how it hears signals, how it ends, and how it begins anew."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import faust
from mode.utils.futures import all_tasks
from mode.utils.logging import level_number

from stream_tgat.brokers import wait_for_brokers
from stream_tgat.errors import StreamTgatError
from stream_tgat.logs import LogFormat, begin, one_line
from stream_tgat.topology import Kafka, Topology
from stream_tgat.transport.complaints import Complaints
from stream_tgat.transport.watchdog import exit_process
from stream_tgat.transport.web import STARTING, StartingPage

_log = logging.getLogger(__name__)

_STDERR: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LAST_TASKS_S: Final = 1.0
_FOLDER: Final = Path.cwd()
_is_asked_to_leave = False
#: Of the log of this process.
_format: LogFormat = "text"


class WatchesBrokers(Protocol):
    """See `outage.BrokerWatch`."""

    def meet(self) -> None:
        """Note that a broker has answered."""

    def is_to_blame(self, error: BaseException) -> bool:
        """Whether the worker may have failed for want of a broker."""


class Prepared(Protocol):
    """The application of a worker, which is prepared before Faust starts it."""

    conf: Any
    topology: Topology
    broker_watch: WatchesBrokers

    def prepare(self, wait: Callable[[Kafka], None], tell: Callable[[str], None]) -> None:
        """Make everything ready. wait: returns when the brokers are there   tell: is given a line while it waits"""

    def begin_anew(self, reason: str) -> None:
        """Replace the process."""


class WorkerProcess(faust.Worker):
    """Faust's worker, but for how it ends: with a line and a status that say why, and at once on a second signal."""

    app: Prepared

    def execute_from_commandline(self) -> NoReturn:
        """Run the application until it is stopped; the last line is the reason, if it stops by itself.

        Where that is for want of a broker, the worker begins anew, and waits for one.
        """
        logging.setLogRecordFactory(_without_our_tracebacks)
        self._begin_log(self.app.topology.log.format)
        end_quietly_on_signals()
        try:
            self._prepare()
            leave_if_asked()
            super().execute_from_commandline()
        except StreamTgatError as error:
            self._begin_anew_without_brokers(error)
            say(f"Error: {error}", logging.ERROR)
            raise SystemExit(1) from None
        finally:
            if self.crash_reason is not None:
                self._begin_anew_without_brokers(self.crash_reason)
            if isinstance(self.crash_reason, StreamTgatError):
                say(f"Error: {self.crash_reason}", logging.ERROR)
        raise SystemExit(1)

    def _begin_log(self, wanted: LogFormat) -> None:
        """Write the log in this format from now on, in place of Faust, which would begin later and draw tables."""
        global _format
        _format = wanted
        self.override_logging, self.spinner = False, None
        begin(wanted, level_number(self.loglevel or "WARN"), file=self.logfile).addFilter(Complaints())

    def _prepare(self) -> None:
        page = StartingPage()
        with page.shown(self.app.conf):
            self.app.prepare(partial(self._wait, page), partial(_tell, page))
        # What was loaded stays; and records are many small objects that die young, never in a cycle.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        # Three threads hand each other small pieces of work: the engine's gives way at once, not after 5 ms.
        sys.setswitchinterval(0.0002)

    def _wait(self, page: StartingPage, kafka: Kafka) -> None:
        """Wait for the brokers, and tell so on the page and in the log."""
        wait_for_brokers(kafka, partial(_tell, page))
        page.reason = STARTING
        self.app.broker_watch.meet()

    def _begin_anew_without_brokers(self, error: BaseException) -> None:
        if self.app.topology.kafka.wait_for_brokers_s and self.app.broker_watch.is_to_blame(error):
            self.app.begin_anew(str(error) or repr(error))

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


def _tell(page: StartingPage, line: str) -> None:
    page.reason = line
    _log.warning("%s", line)


def _without_our_tracebacks(*arguments: Any, **options: Any) -> logging.LogRecord:
    """A log record; an error of ours says all in its message, and the way it has taken through Faust says nothing."""
    record = logging.LogRecord(*arguments, **options)
    if record.exc_info and isinstance(record.exc_info[1], StreamTgatError):
        record.exc_info = None
    return record


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
