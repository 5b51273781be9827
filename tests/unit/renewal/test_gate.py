"""The gate's decisions: what is promoted, what is kept, and that what is few has no say."""

import math

import numpy as np
import pytest

from stream_tgat.evaluation.comparison import FEWEST_LINKS, Chance, HeadSummary, ModelSummary
from stream_tgat.renewal.gate import Best, Compared, Comparison, GateDecision, beside_rules, compare, decide
from stream_tgat.topology import Retrain
from stream_tgat.training.registry import RulesNote

NAN = math.nan
LINKS = "links.average_precision"


def links(new: float, serving: float, **more) -> Compared:
    return Compared(LINKS, new, serving, **{"std_error": 0.002, "answers": 1000, **more})


def auc(new: float, serving: float, **more) -> Compared:
    return Compared("heads.churn.auc", new, serving, **{"std_error": 0.002, "answers": 400, **more})


def brier(new: float, serving: float) -> Compared:
    return Compared("heads.churn.brier", new, serving, std_error=0.002, lower_is_better=True)


def beside(*figures: Compared) -> Comparison:
    """Figures whose errors are independent."""
    made = Comparison(figures)
    errors = [each.std_error for each in made.deciding]
    return Comparison(figures, math.hypot(*errors) / len(errors) if errors else NAN)


FEW = {"no_say": "3 answers of the rarer class, 30 are needed"}
RULES = Retrain(margin=0.02, confidence=0.95)


@pytest.mark.parametrize(
    ("figures", "promoted"),
    [
        ([links(0.80, 0.70), auc(0.80, 0.70)], True),
        ([links(0.80, 0.80), auc(0.80, 0.80)], True),
        ([links(0.79, 0.80), auc(0.79, 0.80)], True),  # certainly worse, and as certainly by less than the margin
        ([links(0.75, 0.80), auc(0.95, 0.80)], False),  # one thing better does not make up for another
        ([links(0.80, 0.70), auc(0.60, 0.70)], False),
        ([links(0.80, 0.70), auc(0.60, 0.70, **FEW)], True),  # too few to have a say
        ([links(0.50, 0.70, **FEW), auc(0.80, 0.70)], True),
        ([links(0.80, 0.70, **FEW), auc(0.80, 0.70, **FEW)], False),  # nothing has a say
        ([brier(0.10, 0.11)], True),
        ([brier(0.20, 0.11)], False),
        ([links(NAN, 0.70), auc(0.80, 0.70)], False),
        ([links(math.inf, 0.70), auc(0.80, 0.70)], False),
        ([links(0.80, 0.70), auc(NAN, 0.70, **FEW)], False),  # few, but it could be measured
        ([links(0.80, 0.70), auc(NAN, NAN, measurable=False, **FEW)], True),  # nothing to measure it on
        ([links(0.80, NAN), auc(0.80, 0.70)], True),  # what serves gives no number
        ([links(0.80, NAN)], True),
        ([links(0.80, 0.70, std_error=NAN)], False),  # nobody knows what chance does
        ([], False),
    ],
)
def test_model_is_promoted_if_it_is_not_worse_in_what_has_a_say(figures: list[Compared], promoted: bool) -> None:
    assert decide(beside(*figures), "trained", RULES).promote is promoted


@pytest.mark.parametrize("opponent", ["none", "untrained"])
def test_first_trained_model_is_promoted_whatever_its_figures_if_they_are_numbers(opponent) -> None:
    assert decide(beside(links(0.50, 0.90), auc(0.40, 0.90, **FEW)), opponent, Retrain()).promote
    assert decide(beside(auc(NAN, NAN, measurable=False, **FEW)), opponent, Retrain()).promote
    assert not decide(beside(links(NAN, 0.90)), opponent, Retrain()).promote
    assert not decide(beside(links(0.50, 0.90), auc(NAN, 0.90, **FEW)), opponent, Retrain()).promote


@pytest.mark.parametrize(
    ("gain", "std_error", "promoted"),
    [
        (0.0, 0.012, True),  # −0.0197: the lower bound, at 1.645 standard errors
        (0.0, 0.0123, False),  # −0.0202
        (-0.1, 0.05, False),  # by the rule before, ten points worse and promoted
        (-0.1, 0.5, False),
        (0.0, 0.05, False),
        (0.07, 0.05, True),
        (-0.019, 0.0001, True),
    ],
)
def test_what_chance_leaves_open_keeps_what_serves(gain: float, std_error: float, promoted: bool) -> None:
    assert decide(beside(auc(0.7 + gain, 0.7, std_error=std_error)), "trained", RULES).promote is promoted


def test_what_cannot_be_told_may_be_promoted_if_so_wanted_but_what_is_worse_may_not() -> None:
    rules = Retrain(when_unsure="promote")
    assert decide(beside(auc(0.7, 0.7, std_error=0.05)), "trained", rules).promote
    assert not decide(beside(auc(0.6, 0.7, std_error=0.05)), "trained", rules).promote


def test_many_figures_tell_together_what_one_does_not() -> None:
    one = auc(0.7, 0.7, std_error=0.02)
    assert not decide(beside(one), "trained", RULES).promote
    assert decide(beside(one, *[links(0.7, 0.7, std_error=0.02)] * 3), "trained", RULES).promote


def test_reason_names_what_decided_with_both_numbers() -> None:
    kept = decide(beside(links(0.5, 0.75), auc(0.8, 0.7), brier(0.3, 0.25)), "trained", RULES)
    assert kept.reason == (
        "it is worse in links.average_precision 0.5000 against 0.7500 (-0.2500 ± 0.0020), "
        "heads.churn.brier 0.3000 against 0.2500 (+0.0500 ± 0.0020)"
    )
    promoted = decide(beside(links(0.75, 0.5), auc(0.1, 0.7, **FEW)), "trained", RULES)
    assert promoted.reason == (
        "it is not worse by more than 0.02: +0.2500 ± 0.0020 on average over links.average_precision 0.7500 against "
        "0.5000 (+0.2500 ± 0.0020); without a say: heads.churn.auc (3 answers of the rarer class, 30 are needed)"
    )
    undefined = decide(beside(links(NAN, 0.7)), "trained", RULES)
    assert undefined.reason == "the new model gives no number for links.average_precision"


def test_reason_says_how_many_answers_would_tell() -> None:
    # An equal model passes in four of five with an error of 0.02 / (1.6449 + 0.8416): 400 (0.0402 · 2.4865 / 0.02)².
    open_question = decide(beside(auc(0.7, 0.7, std_error=0.0402)), "trained", RULES)
    assert open_question.reason == (
        "it cannot be told whether it is worse by more than 0.02: +0.0000 ± 0.0402 on average over heads.churn.auc "
        "0.7000 against 0.7000 (+0.0000 ± 0.0402); 25.0 times the answers would tell, such as 9,992 instead of 400 for "
        "heads.churn.auc"
    )
    assert "too few users" in decide(beside(auc(0.7, 0.7, std_error=NAN)), "trained", RULES).reason


def test_small_losses_do_not_add_up_against_the_best_release() -> None:
    beside_serving = beside(auc(0.69, 0.70))
    assert decide(beside_serving, "trained", RULES).promote
    held = decide(beside_serving, "trained", RULES, Best("r1", beside(auc(0.69, 0.72))))
    assert not held.promote
    assert held.reason.startswith("against r1, the best release of the last 180d, it is worse in heads.churn.auc")
    assert decide(beside_serving, "trained", RULES, Best("r1", beside(auc(0.69, 0.70)))).promote


def test_better_is_who_is_shown_better_than_the_best_and_is_promoted() -> None:
    assert decide(beside(auc(0.72, 0.70)), "trained", RULES).better
    assert not decide(beside(auc(0.70, 0.70)), "trained", RULES).better
    assert not decide(beside(auc(0.72, 0.70)), "trained", RULES, Best("r1", beside(auc(0.72, 0.72)))).better
    assert not decide(beside(auc(0.72, 0.70), links(0.6, 0.7)), "trained", RULES).better


def test_chance_is_taken_from_the_replicates_and_unknown_where_it_cannot_be_told() -> None:
    spread = {LINKS: 0.002, "heads.churn.auc": 0.03, "heads.churn.brier": 0.01}
    signs = np.resize([1.0, -1.0], 200)
    moved = Chance(tuple(spread), np.stack([size * signs for size in spread.values()], 1))
    rules = Retrain(metrics=(LINKS, "heads.auc", "heads.brier"))
    found = compare(model(), model(), moved, rules)
    errors = {each.figure: each.std_error for each in found.figures}
    assert {name: errors[name] for name in spread} == pytest.approx(spread, rel=0.01)
    assert math.isnan(errors["heads.pet.auc"])
    # All three move alike, but a higher Brier score is worse: (0.002 + 0.03 − 0.01) / 3.
    assert found.std_error == pytest.approx(0.022 / 3, rel=0.01)


def model(links: int = 500, precision: float = 0.8, rarer: int = 40, auc: float = 0.7) -> ModelSummary:
    heads = (HeadSummary("churn", 100, rarer, auc, 0.4, 0.1), HeadSummary("pet", 9, 0, NAN, NAN, 0.2))
    return ModelSummary(links, precision, heads)


def test_figures_are_those_that_the_topology_names() -> None:
    rules = Retrain(metrics=("links.average_precision", "heads.auc", "heads.brier"))
    found = compare(model(), model(precision=0.75, auc=0.6), None, rules).figures
    assert [(each.figure, each.new, each.serving) for each in found[:2]] == [
        (LINKS, 0.8, 0.75),
        ("heads.churn.auc", 0.7, 0.6),
    ]
    assert [each.figure for each in found] == [
        LINKS,
        "heads.churn.auc",
        "heads.pet.auc",
        "heads.churn.brier",
        "heads.pet.brier",
    ]
    assert [each.lower_is_better for each in found] == [False, False, False, True, True]
    assert [each.measurable for each in found] == [True, True, False, True, True]
    assert [each.no_say != "" for each in found] == [False, False, True, False, True]
    assert [each.answers for each in found] == [500, 100, 9, 100, 9]


@pytest.mark.parametrize(("rarer", "say"), [(29, False), (30, True)])
def test_head_has_a_say_from_the_stated_number_of_answers_on(rarer: int, say: bool) -> None:
    rules = Retrain(metrics=("heads.auc",), fewest_answers=30)
    assert (compare(model(rarer=rarer), model(), None, rules).figures[0].no_say == "") is say


@pytest.mark.parametrize(("count", "say"), [(FEWEST_LINKS - 1, False), (FEWEST_LINKS, True)])
def test_links_have_a_say_from_a_hundred_on(count: int, say: bool) -> None:
    (found,) = compare(model(links=count), model(), None, Retrain(metrics=(LINKS,))).figures
    assert (found.no_say == "") is say


def test_without_a_serving_model_there_is_nothing_beside_the_new_figures() -> None:
    found = compare(model(), None, None, Retrain())
    assert all(math.isnan(each.serving) for each in found.figures)
    assert decide(found, "none", Retrain()).promote


@pytest.mark.parametrize("verdict", ["better", "unknown", "unmeasured", "worse"])
def test_only_what_is_worse_than_simple_rules_is_kept_for_that(verdict: str) -> None:
    found, note = GateDecision(True, "it is not worse"), RulesNote(verdict, "ReencodingCallbacks.")
    decision = beside_rules(found, note, Retrain())
    assert decision.promote is (verdict != "worse")
    assert decision.reason.endswith("it is not worse")
    assert beside_rules(found, note, Retrain(when_worse_than_rules="promote")) == found
    kept = GateDecision(False, "it is worse")
    assert beside_rules(kept, note, Retrain()) == kept, "the reason is that of the gate"
