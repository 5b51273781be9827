"""When a retraining is due."""

from __future__ import annotations

import pytest

from stream_tgat.renewal.schedule import CardAndLiveAuc, LastTraining, due
from stream_tgat.topology import Retrain

LAST = LastTraining("r1", created=1_000_000.0, ends={("i", 0): 50, ("i", 1): 70})
HOUR = 3600.0
GOOD = CardAndLiveAuc("ban", card_auc=0.80, live=0.79, rarer=100)
FALLEN = CardAndLiveAuc("ban", card_auc=0.80, live=0.69, rarer=100)


@pytest.mark.parametrize(
    ("rules", "last", "hours", "ends", "heads", "reason"),
    [
        ({"every": "24h"}, None, 0, {}, (), "no model was trained from the log so far"),
        ({"every": "24h"}, LAST, 23.99, {}, (), ""),
        ({"every": "24h"}, LAST, 24, {}, (), "r1 was trained 24.0 hours ago, and every = '24h'"),
        ({"every": "7d"}, LAST, 7 * 24, {}, (), "r1 was trained 7.0 days ago, and every = '7d'"),
        ({"after_interactions": 30}, LAST, 1, {0: 60, 1: 89}, (), ""),
        ({"after_interactions": 30}, LAST, 1, {0: 60, 1: 90}, (), "30 interactions have come since r1 was trained"),
        # A partition that was added later counts from its beginning; one that was made anew takes nothing away.
        ({"after_interactions": 30}, LAST, 1, {0: 50, 1: 70, 2: 30}, (), "30 interactions have come"),
        ({"after_interactions": 30}, LAST, 1, {0: 10, 1: 99}, (), ""),
        ({"auc_drop": 0.1}, LAST, 2, {}, (GOOD,), ""),
        ({"auc_drop": 0.1}, LAST, 2, {}, (GOOD, FALLEN), "live AUC of ban is 0.690, 0.110 below the 0.800"),
        ({"auc_drop": 0.12}, LAST, 2, {}, (FALLEN,), ""),
        ({"auc_drop": 0.1, "fewest_answers": 101}, LAST, 2, {}, (FALLEN,), ""),
        # What is learnt from has hardly changed since, so that another one would come to the same.
        ({"after_interactions": 30}, LAST, 0.1, {0: 60, 1: 90}, (), ""),
        ({"after_interactions": 30, "rest": ""}, LAST, 0.1, {0: 60, 1: 90}, (), "30 interactions have come"),
        ({"auc_drop": 0.1, "rest": "3h"}, LAST, 2, {}, (FALLEN,), ""),
        ({"auc_drop": 0.1}, LAST, 2, {}, (CardAndLiveAuc("ban", 0.8, float("nan"), 100),), ""),
        ({}, LAST, 10_000, {0: 10**9}, (FALLEN,), ""),
    ],
)
def test_reason_for_a_retraining(
    rules: dict[str, object],
    last: LastTraining | None,
    hours: float,
    ends: dict[int, int],
    heads: tuple[CardAndLiveAuc, ...],
    reason: str,
) -> None:
    places = {("i", partition): end for partition, end in ends.items()}
    found = due(Retrain.model_validate(rules), last, LAST.created + hours * HOUR, places, heads)
    assert reason in found
    assert bool(found) == bool(reason)
