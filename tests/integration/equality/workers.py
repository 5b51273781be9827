"""Worker processes as an operator sees them: started, asked what they have said, stopped and killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.equality.nursery import Process

REPOSITORY = Path(__file__).resolve().parents[3]


class Spawned:
    """A process started from a shell's point of view. code: the folder of the package that it runs"""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log_file: Path, code: Path = REPOSITORY
    ) -> None:
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=code,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(environment),
            )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; raises TimeoutError."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(str(late)) from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()


@dataclass
class Worker:
    """One worker process, its folder of state and what it said."""

    name: str
    process: Process
    log_file: Path
    log_start: int = 0
    expected_to_end: bool = False

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process.poll() is None

    @property
    def asleep(self) -> bool:
        """Whether it was stopped by SIGSTOP."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def said(self) -> str:
        """Everything it has written; earlier processes of this name wrote into the same file."""
        return self.log_file.read_bytes()[self.log_start :].decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL: nothing is finished, closed or handed over."""
        self.expected_to_end = True
        self.process.signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        """SIGTERM, as an operator stops it."""
        self.expected_to_end = True
        self.process.signal(signal.SIGTERM)

    def wait_for_end(self, timeout_s: float = 60.0) -> int:
        """Wait until it ends; its exit status, negative for a signal."""
        self.expected_to_end = True
        try:
            return self.process.wait(timeout_s)
        except TimeoutError:
            raise AssertionError(f"worker {self.name} still runs:\n{self.said()[-3000:]}") from None

    def stop(self) -> None:
        """SIGTERM, and wait until it has followed."""
        self.terminate()
        self.wait_for_end(40.0)
