"""An alert came true as monitoring would say: a label judges the user's last interaction not after its time."""

from __future__ import annotations

import math

import pytest

from stream_tgat.client import Alert
from stream_tgat.query.watching import alert_log
from stream_tgat.query.watching.alert_log import AlertLog
from tests.unit.query.ask import shop

SHOP = shop(heads=[{"name": "returns", "label": "sent_back", "threshold": 0.5}, {"name": "bans", "threshold": 0.5}])


def alert(name: str, user: str, time: float, head: str = "returns") -> Alert:
    return Alert(name, "p", user, "user", "i", head, 0.7, 0.5, time, 1)


def log(*interactions: float) -> AlertLog:
    return AlertLog(SHOP, lambda user, time: min((each for each in interactions if each > time), default=math.inf))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([], (None, None)),
        ([(10.0, 1.0)], (True, 99.0)),
        ([(10.0, 0.0)], (False, 99.0)),
        ([(15.0, 1.0)], (True, 99.0)),  # of the last interaction not after it
        ([(20.0, 1.0)], (None, None)),  # of the next interaction
        ([(9.0, 1.0)], (None, None)),
        ([(10.0, 0.0), (12.0, 1.0)], (True, 99.0)),  # the largest counts
    ],
)
def test_label_judges_the_interaction_that_it_speaks_of(
    labels: list[tuple[float, float]], expected: tuple[bool | None, float | None]
) -> None:
    known = log(10.0, 20.0)
    known.raise_(alert("a", "ann", 10.0))
    for time, value in labels:
        known.turned_out("ann", "sent_back", value, time, 99.0)
    known.turned_out("ann", "bans", 1.0, 10.0, 50.0)
    known.turned_out("bob", "sent_back", 1.0, 10.0, 50.0)
    (judged,) = known.newest(5)
    assert (judged.came_true, judged.known_at) == expected


def test_alerts_are_told_newest_first_by_user_and_head() -> None:
    known = log()
    for name, user, head in (("a", "ann", "returns"), ("b", "bob", "bans"), ("c", "ann", "bans")):
        known.raise_(alert(name, user, 1.0, head))
    assert [each.alert.id for each in known.newest(2)] == ["c", "b"]
    assert [each.alert.id for each in known.newest(9, user="ann")] == ["c", "a"]
    assert [each.alert.id for each in known.newest(9, head="bans")] == ["c", "b"]
    assert [each.alert.id for each in known.newest(9, "ann", "bans")] == ["c"]
    assert known.raised == 3
    # One of before that came later, from another partition.
    known.raise_(alert("d", "ann", 0.5, "bans"))
    assert [each.alert.id for each in known.newest(9)] == ["c", "b", "a", "d"]


def test_oldest_labels_and_alerts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_log, "MOST_LABELS", 2)
    known = log()
    for time in (1.0, 2.0, 3.0):
        known.raise_(alert(f"a{time}", f"u{time}", time))
        known.turned_out(f"u{time}", "sent_back", 1.0, time, time)
    assert [each.came_true for each in known.newest(9)] == [True, True, None]
