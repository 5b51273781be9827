"""Better or worse than the best simple rule: what the rules say, which is chosen, and in what sentence it is told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.datasets.stream import record
from stream_tgat.evaluation.beside_rules import beside_rules, not_measured
from stream_tgat.evaluation.comparison import ModelAnswers, ask, link_questions
from stream_tgat.evaluation.head_figures import HeadAnswers, asked_in
from stream_tgat.evaluation.measured_part import MeasuredPart, part_for_both
from stream_tgat.evaluation.simple_rules import Pasts, activity, answers_so_far, link_rules
from stream_tgat.topology import Topology
from stream_tgat.training.log import LabelSet, TrainingLog
from stream_tgat.training.pipeline import untrained
from tests.logs import build_log

LINKS, EVEN = "links.average_precision", "heads.even.auc"


@pytest.fixture(scope="module")
def part(log: TrainingLog) -> MeasuredPart:
    return part_for_both(log.interactions.time, float(log.interactions.time[300]), None, 1)


@pytest.fixture(scope="module")
def asked(shop: Topology, log: TrainingLog, part: MeasuredPart) -> ModelAnswers:
    """What an untrained model says."""
    return ask(untrained(shop, 1), log, part, shop.heads, shop.training.seed)


def that_say(asked: ModelAnswers, links: np.ndarray | None = None, even: np.ndarray | None = None) -> ModelAnswers:
    """A model that says something else."""
    link = asked.links if links is None else replace(asked.links, probability=links)
    head = asked.heads["even"] if even is None else replace(asked.heads["even"], probability=even)
    return ModelAnswers(link, {"even": head})


def with_metrics(shop: Topology, *metrics: str) -> Topology:
    return shop.model_copy(update={"retrain": shop.retrain.model_copy(update={"metrics": metrics})})


# The rules


def test_answers_so_far_are_those_known_before_the_question_and_no_other(log: TrainingLog, part: MeasuredPart) -> None:
    random = np.random.default_rng(3)
    labels = log.labels["even"]
    late = labels.known + random.choice([0.0, 35.0, 400.0], len(labels))
    labels = replace(labels, known=late, value=random.integers(2, size=len(labels)).astype(float))
    past = Pasts(log, part).of(labels)
    user, time = log.interactions.source, log.interactions.time
    base = labels.value[labels.known < time[300]].mean()
    expected = []
    for event in range(300, 600):  # the slow way
        own = [
            value
            for of, value, known in zip(labels.event, labels.value, labels.known, strict=True)
            if user[of] == user[event] and known < time[event]
        ]
        expected.append((sum(own) + base) / (len(own) + 1))
    assert_allclose(answers_so_far(past, np.arange(300, 600)), expected)


def test_activity_counts_the_user_s_interactions_lately(log: TrainingLog, part: MeasuredPart) -> None:
    past = Pasts(log, part).of(log.labels["even"])
    user, time = log.interactions.source, log.interactions.time
    # The newest 15 % of 300 interactions, one every ten seconds: 0.15 x 2990 s.
    assert past.window_s == pytest.approx(448.5)
    expected = [
        sum(user[at] == user[event] and time[event] - 448.5 <= time[at] < time[event] for at in range(event))
        for event in range(300, 600)
    ]
    assert_array_equal(activity(past, np.arange(300, 600)), expected)


def test_link_rules_are_asked_what_the_model_is(shop: Topology, log: TrainingLog, part: MeasuredPart) -> None:
    event, other = link_questions(log, slice(300, 600), shop.training.seed)
    assert_array_equal(event, np.arange(300, 600))
    bank = link_rules(log, part)[0]
    met: set[tuple[int, int]] = set()
    happened, did_not = [], []
    for at in range(600):
        pair = int(log.interactions.source[at]), int(log.interactions.destination[at])
        if at >= 300:
            happened.append(float(pair in met))
            did_not.append(float((pair[0], int(other[at - 300])) in met))
        met.add(pair)
    assert bank.name == "EdgeBank (unlimited)"
    assert_array_equal(bank.scores(log, event, other), [*happened, *did_not])


# The verdict


def test_model_that_knows_the_truth_is_better_and_one_that_knows_nothing_is_worse(
    shop: Topology, log: TrainingLog, part: MeasuredPart, asked: ModelAnswers
) -> None:
    links = with_metrics(shop, LINKS)
    good = beside_rules(that_say(asked, links=asked.links.truth), log, part, links)
    assert good.verdict == "better"
    (figure,) = good.figures
    assert (figure.model, good.gain) == (1.0, figure.gain)
    assert 0 < good.low < good.gain < good.high
    assert good.sentence.startswith(f"Better than the best simple rule by {good.gain:.4f} in {LINKS} (95 % interval")
    # A user's own answers tell the kind without fail: an AUC of 1.
    coin = np.random.default_rng(1).random(300)
    heads = beside_rules(that_say(asked, even=coin), log, part, with_metrics(shop, "heads.auc"))
    assert (heads.verdict, heads.figures[0].rule, heads.figures[0].best_rule) == (
        "worse",
        1.0,
        "own answers so far",
    )
    assert heads.gain == pytest.approx(heads.figures[0].model - 1.0)
    assert heads.high < 0
    assert heads.sentence.startswith(f"Worse than the best simple rule by {-heads.gain:.4f} in {EVEN} (95 %")


def test_mean_over_figures_decides_and_what_is_worse_is_named(
    shop: Topology, log: TrainingLog, part: MeasuredPart, asked: ModelAnswers
) -> None:
    a_little = np.where(np.random.default_rng(2).random(300) < 0.1, 0.5, asked.heads["even"].truth)
    found = beside_rules(that_say(asked, asked.links.truth, a_little), log, part, shop)
    gains = {each.figure: each.gain for each in found.figures}
    assert found.gain == pytest.approx((gains[LINKS] + gains[EVEN]) / 2)
    assert gains[EVEN] < 0 < found.low
    assert found.verdict == "better"
    assert "on average over 2 figures" in found.sentence
    assert found.sentence.endswith(f", but worse in {EVEN}.")
    worse = beside_rules(that_say(asked, asked.links.truth, 1.0 - asked.heads["even"].truth), log, part, shop)
    assert worse.verdict == "worse"
    assert worse.sentence.endswith(f", but better in {LINKS}.")


def test_model_that_says_what_the_rule_says_is_neither(
    shop: Topology, log: TrainingLog, part: MeasuredPart, asked: ModelAnswers
) -> None:
    found = beside_rules(that_say(asked, even=asked.heads["even"].truth), log, part, with_metrics(shop, "heads.auc"))
    assert (found.verdict, found.gain, found.low, found.high) == ("unknown", 0.0, 0.0, 0.0)
    assert found.sentence == (
        f"Not shown to be better or worse than the best simple rule: +0.0000 in {EVEN} "
        "(95 % interval of the difference +0.0000 to +0.0000)."
    )


def test_brier_score_is_better_where_it_is_lower_and_beside_probabilities_only(
    shop: Topology, log: TrainingLog, part: MeasuredPart, asked: ModelAnswers
) -> None:
    wrong = 1.0 - asked.heads["even"].truth
    found = beside_rules(that_say(asked, even=wrong), log, part, with_metrics(shop, "heads.brier"))
    (figure,) = found.figures
    assert (found.verdict, figure.model, figure.gain) == ("worse", 1.0, figure.rule - 1.0)
    assert 0 <= figure.rule < 0.25


def test_rule_is_chosen_by_what_was_known_before_the_part(shop: Topology) -> None:
    """Busy users said yes until the part began; in it quiet ones do, which nobody could have known."""
    records = []
    for number in range(900):
        user = "busy" if number % 3 else f"quiet-{number % 60}"
        time = 1e9 + 10.0 * number
        row = {"user": user, "item": f"i{number % 7}", "timestamp": time, "amount": 1.0, "kind": "a"}
        records.append(record("interactions", user, row, 0.0))
        value = int((user == "busy") == (number < 600))
        label = {"node": user, "label": "even", "value": value, "timestamp": time, "known_at": time + 5.0}
        records.append(record("labels", user, label, 0.0))
    log = build_log(shop, records)
    part = part_for_both(log.interactions.time, float(log.interactions.time[600]), None, 1)
    truth = asked_in(log, shop.heads[0], part)
    user = log.interactions.source[truth.event]
    half = ModelAnswers(
        HeadAnswers(np.zeros(0), np.zeros(0), np.zeros(0, np.int64)),
        {"even": HeadAnswers(truth.value, np.full(len(truth), 0.5), user)},
    )
    (figure,) = beside_rules(half, log, part, with_metrics(shop, "heads.auc")).figures
    assert figure.best_rule in ("own answers so far", "busier lately, likelier")
    assert figure.rule < 0.5, "chosen afterwards, the contrary rule would have won"


# What cannot be measured


def only(labels: LabelSet, value: float) -> LabelSet:
    return labels.select(labels.value == value)


def test_head_with_answers_of_one_kind_cannot_be_measured_and_says_so(
    shop: Topology, log: TrainingLog, part: MeasuredPart
) -> None:
    one_kind = replace(log, labels={"even": only(log.labels["even"], 1.0)})
    answers = ask(untrained(shop, 1), one_kind, part, shop.heads, shop.training.seed)
    count = len(answers.heads["even"].truth)
    told = f"{EVEN} (all {count:,} answers are true)"
    alone = beside_rules(answers, one_kind, part, with_metrics(shop, "heads.auc"))
    assert (alone.verdict, alone.gain) == ("unmeasured", None)
    assert alone.sentence == f"Whether it is better than a simple rule cannot be measured: {told}."
    both = beside_rules(that_say(answers, links=answers.links.truth), one_kind, part, shop)
    assert both.verdict == "better"
    assert both.sentence.endswith(f" Not measured: {told}.")


def test_few_answers_have_no_say(shop: Topology, log: TrainingLog) -> None:
    part = part_for_both(log.interactions.time, float(log.interactions.time[570]), None, 1)
    answers = ask(untrained(shop, 1), log, part, shop.heads, shop.training.seed)
    rarer = int(min(answers.heads["even"].truth.sum(), 30 - answers.heads["even"].truth.sum()))
    assert beside_rules(answers, log, part, shop).sentence == (
        f"Whether it is better than a simple rule cannot be measured: {LINKS} (30 links, 100 are needed), "
        f"{EVEN} ({rarer} answers of the rarer class, 20 are needed)."
    )
    assert not_measured("nothing is new").sentence.endswith("cannot be measured: nothing is new.")


def test_log_without_anything_before_the_part_is_measured_all_the_same(shop: Topology, log: TrainingLog) -> None:
    part = part_for_both(log.interactions.time, -math.inf, None, 1)
    answers = ask(untrained(shop, 1), log, part, shop.heads, shop.training.seed)
    found = beside_rules(answers, log, part, shop)
    assert found.verdict in ("worse", "unknown")
    assert [each.figure for each in found.figures] == [LINKS, EVEN]


def test_model_that_gives_no_number_is_worse_than_any_rule(
    shop: Topology, log: TrainingLog, part: MeasuredPart, asked: ModelAnswers
) -> None:
    nan = np.full(len(asked.links.truth), np.nan)
    found = beside_rules(that_say(asked, links=nan), log, part, shop)
    assert (found.verdict, found.sentence) == ("worse", f"Worse than any simple rule: it gives no number for {LINKS}.")
    assert found.figures[0].model is None
