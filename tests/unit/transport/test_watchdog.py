"""The watchdog barks at backlog without progress, and at nothing else."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from stream_tgat.errors import TopicError
from stream_tgat.transport.watchdog import Watchdog, exit_process


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


def test_last_word_of_a_worker_whose_stop_hangs_is_why_it_stops(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def end(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", end)
    for crash, stacks in ((TopicError("a topic is gone"), False), (OSError("a bug"), True), (None, True)):
        with pytest.raises(SystemExit, match="70"):
            exit_process("the shutdown does not end", crash)
        said = capfd.readouterr().err
        assert said.startswith("watchdog: the shutdown does not end; exit 70\n")
        assert ("most recent call first" in said) is stacks
        assert said.endswith("Error: a topic is gone\n") is not stacks
