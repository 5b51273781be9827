"""The gate's decisions: what is promoted, what is kept, and that what is few has no say."""

import math

import pytest

from stream_tgat.evaluation.releases.comparison import HeadSummary, ModelSummary
from stream_tgat.renewal.gate import FEWEST_LINKS, Compared, compare, decide
from stream_tgat.topology import Retrain

NAN = math.nan
LINKS = "links.average_precision"


def links(new: float, serving: float, **more) -> Compared:
    return Compared(LINKS, new, serving, **more)


def auc(new: float, serving: float, **more) -> Compared:
    return Compared("heads.churn.auc", new, serving, **more)


def brier(new: float, serving: float) -> Compared:
    return Compared("heads.churn.brier", new, serving, lower_is_better=True)


FEW = {"no_say": "3 answers of the rarer class, 30 are needed"}


@pytest.mark.parametrize(
    ("figures", "promoted"),
    [
        ([links(0.80, 0.70), auc(0.80, 0.70)], True),
        ([links(0.80, 0.80), auc(0.80, 0.80)], True),
        ([links(0.75, 0.7578125), auc(0.80, 0.80)], True),  # by the tolerance and no more
        ([links(0.75, 0.7579), auc(0.90, 0.80)], False),  # one thing better does not make up for another
        ([links(0.80, 0.70), auc(0.60, 0.70)], False),
        ([links(0.80, 0.70), auc(0.60, 0.70, **FEW)], True),  # too few to have a say
        ([links(0.50, 0.70, **FEW), auc(0.80, 0.70)], True),
        ([links(0.80, 0.70, **FEW), auc(0.80, 0.70, **FEW)], False),  # nothing has a say
        ([brier(0.10, 0.11)], True),
        ([brier(0.12, 0.11)], False),
        ([links(NAN, 0.70), auc(0.80, 0.70)], False),
        ([links(math.inf, 0.70), auc(0.80, 0.70)], False),
        ([links(0.80, 0.70), auc(NAN, 0.70, **FEW)], False),  # few, but it could be measured
        ([links(0.80, 0.70), auc(NAN, NAN, measurable=False, **FEW)], True),  # nothing to measure it on
        ([links(0.80, NAN), auc(0.80, 0.70)], True),  # what serves gives no number
        ([], False),
    ],
)
def test_model_is_promoted_if_it_is_worse_in_nothing_that_has_a_say(figures: list[Compared], promoted: bool) -> None:
    assert decide(figures, "trained", Retrain(tolerance=2**-7)).promote is promoted


@pytest.mark.parametrize("opponent", ["none", "untrained"])
def test_first_trained_model_is_promoted_whatever_its_figures_if_they_are_numbers(opponent) -> None:
    assert decide([links(0.50, 0.90), auc(0.40, 0.90, **FEW)], opponent, Retrain()).promote
    assert decide([auc(NAN, NAN, measurable=False, **FEW)], opponent, Retrain()).promote
    assert not decide([links(NAN, 0.90)], opponent, Retrain()).promote
    assert not decide([links(0.50, 0.90), auc(NAN, 0.90, **FEW)], opponent, Retrain()).promote


def test_reason_names_what_decided_with_both_numbers() -> None:
    kept = decide([links(0.5, 0.75), auc(0.8, 0.7), brier(0.3, 0.25)], "trained", Retrain(doubt=0.0))
    assert kept.reason == (
        "it is worse by more than 0.005 in links.average_precision 0.5000 against 0.7500 (-0.2500), "
        "heads.churn.brier 0.3000 against 0.2500 (+0.0500)"
    )
    promoted = decide([links(0.75, 0.5), auc(0.1, 0.7, **FEW)], "trained", Retrain(doubt=0.0))
    assert promoted.reason == (
        "it is worse by more than 0.005 in nothing: links.average_precision 0.7500 against 0.5000 (+0.2500); "
        "without a say: heads.churn.auc (3 answers of the rarer class, 30 are needed)"
    )
    assert (
        decide([links(NAN, 0.7)], "trained", Retrain()).reason
        == "the new model gives no number for links.average_precision"
    )


@pytest.mark.parametrize(
    ("std_error", "doubt", "promoted"),
    [(0.0, 2.0, False), (0.03, 2.0, False), (0.05, 2.0, True), (0.05, 1.0, False), (0.5, 0.0, False)],
)
def test_worse_is_what_is_worse_beyond_tolerance_and_chance(std_error: float, doubt: float, promoted: bool) -> None:
    rules = Retrain(tolerance=0.01, doubt=doubt)
    decision = decide([auc(0.60, 0.70, std_error=std_error), links(0.8, 0.8)], "trained", rules)
    assert decision.promote is promoted
    assert ("by more than 0.01 and chance in" in decision.reason) is (doubt > 0)
    assert (f"(-0.1000 ± {std_error:.4f})" in decision.reason) is (std_error > 0)


def test_chance_is_taken_from_the_errors_and_none_where_it_cannot_be_told() -> None:
    errors = ModelSummary(500, 0.002, (HeadSummary("churn", 100, 40, NAN, 0.03, 0.01),))
    rules = Retrain(metrics=("links.average_precision", "heads.auc", "heads.average_precision", "heads.brier"))
    found = {each.figure: each.std_error for each in compare(model(), model(), errors, rules)}
    assert found == {
        LINKS: 0.002, "heads.churn.auc": 0.0, "heads.pet.auc": 0.0, "heads.churn.average_precision": 0.03,
        "heads.pet.average_precision": 0.0, "heads.churn.brier": 0.01, "heads.pet.brier": 0.0,
    }  # fmt: skip


def model(links: int = 500, precision: float = 0.8, rarer: int = 40, auc: float = 0.7) -> ModelSummary:
    heads = (HeadSummary("churn", 100, rarer, auc, 0.4, 0.1), HeadSummary("pet", 9, 0, NAN, NAN, 0.2))
    return ModelSummary(links, precision, heads)


def test_figures_are_those_that_the_topology_names() -> None:
    rules = Retrain(metrics=("links.average_precision", "heads.auc", "heads.brier"))
    found = compare(model(), model(precision=0.75, auc=0.6), None, rules)
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
    assert decide(found, "trained", rules).promote


@pytest.mark.parametrize(("rarer", "say"), [(29, False), (30, True)])
def test_head_has_a_say_from_the_stated_number_of_answers_on(rarer: int, say: bool) -> None:
    (found, _) = compare(model(rarer=rarer), model(), None, Retrain(metrics=("heads.auc",), fewest_answers=30))
    assert (found.no_say == "") is say


@pytest.mark.parametrize(("count", "say"), [(FEWEST_LINKS - 1, False), (FEWEST_LINKS, True)])
def test_links_have_a_say_from_a_hundred_on(count: int, say: bool) -> None:
    (found,) = compare(model(links=count), model(), None, Retrain(metrics=(LINKS,)))
    assert (found.no_say == "") is say


def test_without_a_serving_model_there_is_nothing_beside_the_new_figures() -> None:
    found = compare(model(), None, None, Retrain())
    assert all(math.isnan(each.serving) for each in found)
    assert decide(found, "none", Retrain()).promote
