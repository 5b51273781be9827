"""Worker processes that are forked from one that has imported everything: torch and numba take longer than most tests.

What runs is the command line of `faust -A … worker` in a process of its own, with its own environment and log; only the
imports are shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

_PRELOADED = (
    "faust.cli.worker",
    "kafka",
    "numba",
    "rocksdict",
    "stream_tgat.housekeeping.releases",
    "stream_tgat.engine",
    "stream_tgat.worker",
    "torch",
)


class Process(Protocol):
    """What a test needs of a worker's process."""

    pid: int

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; raises TimeoutError."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""


class Forked:
    """A process from the nursery."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log_file: Path) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(_PRELOADED))
        arguments = (tuple(command), dict(environment), str(log_file))
        self._process = context.Process(target=_run, args=arguments, daemon=False)
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        status: int | None = self._process.exitcode
        return status

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; raises TimeoutError."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise TimeoutError(f"process {self.pid} still runs")
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(command: Sequence[str], environment: Mapping[str, str], log_file: str) -> None:
    """In the child: become `command`, which is a command line of Faust."""
    os.setsid()
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(command)
    # What a worker that begins anew becomes.
    sys.orig_argv = [sys.executable, "-m", *command]
    from faust.cli.faust import cli

    cli()
