"""Interactions that arrive steadily while a test does something else."""

from __future__ import annotations

import threading
import time

from tests.integration.equality.deployment import Deployment


class Flow:
    """Produces the log of a deployment in a thread of its own, `at_once` records every `pause_s` seconds.

    patience_s: how long a record may wait for its brokers
    """

    def __init__(self, deployment: Deployment, pause_s: float, at_once: int = 5, patience_s: float = 20.0) -> None:
        self._deployment, self._pause_s, self._at_once = deployment, pause_s, at_once
        self._patience_s = patience_s
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin with the first record."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether records are left."""
        return self._thread.is_alive()

    def join(self, timeout_s: float = 120.0) -> None:
        """Wait for the last record; raises what went wrong."""
        self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        assert not self.running, f"records are left to produce after {timeout_s:.0f} s"

    def _run(self) -> None:
        records = self._deployment.log.records
        try:
            for first in range(0, len(records), self._at_once):
                self._deployment.produce(records[first : first + self._at_once], self._patience_s)
                time.sleep(self._pause_s)
        except BaseException as error:  # noqa: BLE001 it is raised again where the thread is joined
            self._error = error
