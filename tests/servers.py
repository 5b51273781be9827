"""Servers in processes of their own, beside the broker: waited for, stopped for a while, and ended."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    _process: subprocess.Popen[bytes]

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Within it nothing is answered; it keeps what it has."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def wait_until_answered(url: str, process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Ask until there is an answer; AssertionError once the process has ended, or after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
            return
        except OSError:
            assert process.poll() is None, f"{process.args} has ended"
            assert time.monotonic() < deadline, f"no answer within {patience_s:.0f} s"
            time.sleep(0.1)
