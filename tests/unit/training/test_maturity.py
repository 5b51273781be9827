"""When answers are complete: what the log shows of their delays, and what is left out of training and figures."""

import numpy as np
import pytest

from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.topology import Topology
from stream_tgat.training.heads import known_labels, split_labels
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.log import LabelSet
from stream_tgat.training.maturity import Maturity, learnt_delay, maturity_of
from stream_tgat.training.pipeline import HeadSettings, train
from tests.logs import build_log

from .conftest import interaction, label

DAY = 86_400.0


def seen(asked, delay, until):
    """Of all answers those that are known by `until`: asked, known."""
    is_seen = asked + delay <= until
    return asked[is_seen], (asked + delay)[is_seen]


def test_delay_that_never_changes_is_that_delay_however_many_are_too_new_to_be_known():
    asked = np.arange(100.0)
    assert learnt_delay(*seen(asked, np.full(100, 30.0), 99.0), 99.0) == 30.0


@pytest.mark.parametrize("growth", [1.0, 30.0], ids=["even", "ever more questions"])
def test_long_delays_are_told_from_the_questions_that_were_followed_for_long(growth):
    """Exponential delays with a mean of 10: 99 % of them are below 46. Of those seen, most are of new questions."""
    random = np.random.default_rng(0)
    asked = (
        200 * np.log1p((growth - 1) * random.random(20_000)) / np.log(growth)
        if growth > 1
        else 200 * random.random(20_000)
    )
    asked, known = seen(asked, random.exponential(10.0, 20_000), 200.0)
    found = learnt_delay(asked, known, 200.0)
    assert found == pytest.approx(10 * np.log(100), rel=0.08)
    if growth > 1:
        assert np.quantile(known - asked, 0.99) < 0.97 * found, "as they are, they mislead"


def test_one_answer_that_came_very_late_does_not_make_all_others_wait():
    asked, known = np.arange(100.0), np.arange(100.0) + 1
    known[0] = 99.0
    assert learnt_delay(asked, known, 100.0) == 1.0


def test_slower_kind_of_answer_decides_and_what_is_stated_wins():
    asked = np.arange(60.0)
    value = asked % 2
    known = asked + np.where(value == 1, 1.0, 20.0)
    assert maturity_of(asked, known, value, None) == Maturity(20.0, 78.0)
    assert maturity_of(asked, known, value, 25.0) == Maturity(25.0, 78.0, stated=True)
    assert maturity_of(asked, known, value, 25.0).complete_until == 53.0


def test_few_answers_wait_for_as_long_as_the_slowest_took():
    assert learnt_delay(np.array([0.0, 1.0]), np.array([0.5, 9.0]), 50.0) == 8.0


def test_questions_count_when_answers_of_both_kinds_had_their_time():
    """What is known early is left out with what is not known yet: else only one kind would be left."""
    times = np.arange(40.0)
    early = LabelSet(np.arange(40), times % 2, times + np.where(times % 2 == 1, 1.0, 10.0), Maturity(10.0, 49.0))
    assert known_labels(early, times, 30.0).event.tolist() == list(range(21))
    train_on, validation = split_labels(early, times, 0.25)
    assert validation.tolist() == list(range(30, 40))
    assert train_on.tolist() == list(range(21))


def shop(**head):
    return Topology.model_validate(
        {
            "name": "shop",
            "model": {"hidden": 8, "time_dim": 4, "neighbours": 4, "candidates": 4},
            "features": [{"kind": "number", "name": "amount"}],
            "heads": [{"name": "returns", **head}],
            "training": {"epochs": 1, "batch_size": 200, "head_epochs": 5},
        }
    )


def returns(days, true_after, false_after):
    """Ten purchases a day, a third of which are sent back; each answer comes when it is known, until now."""
    random = np.random.default_rng(1)
    records: list[StreamRecord] = []
    for number in range(10 * days):
        time = 1e9 + number * DAY / 10
        sent_back = bool(random.random() < 1 / 3)
        known = time + DAY * (true_after if sent_back else false_after)
        user = f"u{random.integers(30)}"
        records.append(interaction(number, user, f"i{random.integers(9)}", time, float(sent_back + random.random())))
        if known <= 1e9 + days * DAY:
            records.append(label(user, "returns", sent_back, time, known))
    return records


@pytest.mark.parametrize(("true_after", "false_after"), [(2, 20), (20, 2)], ids=["true first", "false first"])
def test_every_part_has_answers_of_both_kinds_in_their_share(true_after, false_after):
    log = build_log(shop(), returns(60, true_after, false_after))
    assert log.labels["returns"].maturity.delay_s == 20 * DAY
    trained = train(shop(), log, LinkSettings(epochs=1), HeadSettings(epochs=20))
    assert trained.head_part == "test"
    assert trained.heads[0].trained, "though no question was answered before validation began, 28 days before the end"
    found = trained.head_metrics["returns"]
    assert found.count >= 40, "the newest share of what is complete"
    assert 0.2 < found.base_rate < 0.46
    assert found.auc > 0.8, "the amount tells"
    validated = trained.heads[0].validation_value
    assert 0.2 < validated.mean() < 0.46


def test_log_of_early_answers_only_says_that_it_tells_nothing():
    log = build_log(shop(), returns(15, 2, 20))
    assert set(log.labels["returns"].value) == {1.0}
    trained = train(shop(), log, LinkSettings(epochs=1), HeadSettings(epochs=2))
    assert not trained.heads[0].trained
    found = trained.head_metrics["returns"]
    assert found.unmeasured == f"all {found.count} answers are true"


def test_stated_delay_is_taken_where_the_log_cannot_show_it():
    """No false answer is known yet; that one would be, had there been one, only the topology can say."""
    log = build_log(shop(answers_after="20d"), returns(15, 2, 20))
    assert log.labels["returns"].maturity.complete_until < log.interactions.time[0]
    trained = train(shop(answers_after="20d"), log, LinkSettings(epochs=1), HeadSettings(epochs=2))
    assert trained.head_metrics["returns"].unmeasured == "no answer is complete yet"
