"""The watchdog barks at backlog without progress, and at nothing else."""

from __future__ import annotations

import time
from typing import Any

from stream_tgat.transport.watchdog import Watchdog


class Worker:
    """What the watchdog sees."""

    rebalancing = False
    waiting = 0
    state = 0

    def backlog(self) -> int:
        return self.waiting

    def processing_state(self) -> int:
        return self.state


def _stalled(worker: Any, seconds: float = 11.0) -> Watchdog:
    watchdog = Watchdog(worker, stall_s=10.0)
    watchdog.look()
    watchdog._progressed_at = time.monotonic() - seconds
    return watchdog


def test_backlog_without_progress_is_a_reason_to_stop() -> None:
    worker = Worker()
    worker.waiting = 7
    assert _stalled(worker).look() == "no progress for 11 s although 7 records wait"
    assert _stalled(worker, 9.0).look() is None


def test_rebalance_that_does_not_end_is_a_reason_to_stop() -> None:
    worker = Worker()
    worker.rebalancing = True
    assert _stalled(worker).look() == "no progress for 11 s although the rebalance has not ended"


def test_nothing_to_do_is_no_reason() -> None:
    assert _stalled(Worker()).look() is None


def test_progress_starts_the_time_anew() -> None:
    worker = Worker()
    worker.waiting = 7
    watchdog = _stalled(worker)
    worker.state += 1
    assert watchdog.look() is None
    watchdog = _stalled(worker)
    watchdog.progress()
    assert watchdog.look() is None
