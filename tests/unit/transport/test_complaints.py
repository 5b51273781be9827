"""Attempts that a client repeats are told when they go on, not each time; all else is told as ever."""

from __future__ import annotations

import logging
import time

import pytest

from stream_tgat.transport.complaints import EVERY_S, PATIENCE_S, REPEATED, Complaints

COORDINATOR = "Group Coordinator Request failed: %s"


class Log:
    """What is shown, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.complaints = Complaints()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def shows(self, text: str, name: str = "aiokafka.consumer.group_coordinator", **more: object) -> bool:
        record = logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)
        vars(record).update(more)
        return self.complaints.filter(record)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_complaint_that_is_over_within_seconds_is_not_shown(log: Log) -> None:
    """A new group's coordinator is not there at once: an ERROR at each healthy start."""
    for _ in range(20):
        assert not log.shows(COORDINATOR)
        log.now += 0.1
    log.now += EVERY_S + 1
    assert not log.shows(COORDINATOR)


def test_complaint_that_goes_on_is_shown_now_and_then(log: Log) -> None:
    shown = []
    for _ in range(int(10 * (PATIENCE_S + 2 * EVERY_S + 1))):
        if log.shows(COORDINATOR):
            shown.append(log.now - 1000)
        log.now += 0.1
    assert shown == pytest.approx([PATIENCE_S, PATIENCE_S + EVERY_S, PATIENCE_S + 2 * EVERY_S], abs=0.2)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Unexpected error in coordinator routine", {}),
        ("Topic %s is not authorized for this client", {}),
        (COORDINATOR, {"levelno": logging.CRITICAL}),
        (COORDINATOR, {"exc_info": (ValueError, ValueError(), None)}),
        (COORDINATOR, {"name": "stream_tgat.worker"}),
    ],
)
def test_what_is_no_repeated_attempt_is_shown_each_time(log: Log, text: str, more: dict[str, object]) -> None:
    assert log.shows(text, **more)
    assert log.shows(text, **more)


def test_our_own_repeated_attempts_and_the_warnings_of_kafka_python_are_complaints_too(log: Log) -> None:
    assert not log.shows("The sources could not be looked at: %r", "stream_tgat.worker", **REPEATED)
    assert not log.shows("connection refused", "kafka.net.manager")
    assert not log.shows("Unable connect to node with id %s: %s", "aiokafka")
