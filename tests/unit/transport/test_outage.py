"""When a worker that hears nothing of its brokers waits, begins anew, or ends."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError

from stream_tgat.errors import FencedError, LostDataError, ReleaseError, SettingsError, TopicError
from stream_tgat.transport.outage import AFTERMATH_S, STOPPING_S, SUSPICIOUS_S, BrokerWatch

LIMIT_S = 7.0


class Rig:
    """A watch by a clock of its own, and what it did to the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.heartbeat_at = 1000.0, 1000.0
        self.answer: str | None = None
        self.asked = 0
        self.done: list[str] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        rig = self

        class Fence:
            heartbeat_limit_s = LIMIT_S

            @property
            def heartbeat_age_s(self) -> float:
                return rig.now - rig.heartbeat_at

        self.app = SimpleNamespace(fence=Fence(), should_stop=False, crashed=False, crash_reason=None)
        self.watch = BrokerWatch(
            self.app,
            self._ask,
            begin_anew=lambda reason: self.done.append(f"anew: {reason}"),
            end=lambda status, said: self.done.append(f"end {status}"),
        )

    def _ask(self) -> str | None:
        self.asked += 1
        return self.answer

    def look(self, *, after_s: float = 0.0, beating: bool = False) -> None:
        self.now += after_s
        if beating:
            self.heartbeat_at = self.now
        self.watch.look()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_brokers_that_take_heartbeats_are_not_asked(rig: Rig) -> None:
    rig.answer = "away"
    for _ in range(100):
        rig.look(after_s=1.0, beating=True)
    assert (rig.asked, rig.done, rig.watch.silence) == (0, [], None)


def test_late_heartbeat_while_a_broker_answers_is_left_to_the_fence(rig: Rig) -> None:
    for _ in range(100):
        rig.look(after_s=1.0)
    assert rig.asked > 10
    assert (rig.done, rig.watch.silence) == ([], None)


def test_worker_begins_anew_when_no_commit_could_begin_any_more(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.answer = "no broker"
    rig.look(after_s=SUSPICIOUS_S + 0.1)
    assert rig.watch.silence == "no broker"
    while rig.now - rig.heartbeat_at <= LIMIT_S - 1:
        rig.look(after_s=1.0)
    assert rig.done == []
    rig.look(after_s=1.0)
    rig.look(after_s=1.0)
    assert rig.done[0] == "anew: no broker"
    assert len(caplog.messages) <= 2


def test_brokers_that_return_in_time_are_told_of_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.answer = "no broker"
    rig.look(after_s=4.0)
    rig.answer = None
    rig.look(after_s=1.0, beating=True)
    rig.look(after_s=1.0, beating=True)
    assert rig.watch.silence is None
    assert [message.split(" after")[0] for message in caplog.messages[1:]] == ["The brokers answer again"]
    rig.answer = "no broker"
    rig.look(after_s=4.0)
    assert rig.done == [], "the time of the first silence does not count for the second"


def test_worker_that_was_asked_to_stop_ends_instead(rig: Rig) -> None:
    rig.answer, rig.app.should_stop = "no broker", True
    rig.look(after_s=STOPPING_S - 1)
    assert rig.done == []
    rig.look(after_s=2.0)
    assert rig.done == ["end 0"]


@pytest.mark.parametrize(
    ("error", "done"), [(KafkaConnectionError("timed out"), ["anew: no broker"]), (LostDataError("a gap"), [])]
)
def test_worker_that_fails_without_a_broker_begins_anew_at_once_unless_that_mends_nothing(
    error: Exception, done: list[str], rig: Rig
) -> None:
    rig.answer, rig.app.should_stop, rig.app.crashed, rig.app.crash_reason = "no broker", True, True, error
    rig.look(after_s=SUSPICIOUS_S + 0.1)
    assert rig.done == done


def test_brokers_are_to_blame_while_they_are_away_and_for_what_their_clients_raise_soon_after(rig: Rig) -> None:
    late = KafkaConnectionError("timed out")
    rig.watch.meet()
    assert not rig.watch.is_to_blame(late), "they were there all the time"
    rig.answer = "no broker"
    assert rig.watch.is_to_blame(late)
    assert rig.watch.is_to_blame(FencedError("no heartbeat"))
    rig.look(after_s=4.0)
    rig.answer = None
    assert rig.watch.is_to_blame(late)
    rig.now += AFTERMATH_S + 1
    assert not rig.watch.is_to_blame(late)


def test_error_that_waiting_cannot_mend_ends_the_worker_whether_a_broker_answers_or_not(rig: Rig) -> None:
    """Or it would begin anew for ever, and nobody would read why."""
    rig.answer = "no broker"
    assert not rig.watch.is_to_blame(TopicError("no broker answers, for 60 s")), "it has waited for long enough"
    rig.watch.meet()
    for error in (LostDataError("a gap"), SettingsError("the port is taken"), ReleaseError("none")):
        assert not rig.watch.is_to_blame(error)
