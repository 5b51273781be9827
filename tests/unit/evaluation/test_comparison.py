"""Two models are asked the same, and what is not a number is told as such."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from stream_tgat.evaluation import comparison
from stream_tgat.evaluation.comparison import Chance, ask, chance, summarise_head
from stream_tgat.evaluation.head_figures import HeadAnswers
from stream_tgat.evaluation.measured_part import part_for_both
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph, pair_logits

LINKS = "links.average_precision"


@pytest.fixture
def part(log):
    return part_for_both(log.interactions.time, float(log.interactions.time[450]), None, 1)


def test_links_are_ranked_against_destinations_of_before(shop, log, part):
    model = untrained(shop, 1)
    found = ask(model, log, part, shop.heads, seed=7).summary()
    # The slow way: every interaction by itself, with the negative of its batch.
    graph, negatives = TemporalGraph.of(log.interactions, None), RandomNegatives(log.interactions, 7)
    places = np.arange(450, 600)
    drawn = negatives.draw(log.interactions.time[places], 1, (1 << 31, 0))[:, 0]
    truth, scores = [], []
    for place, other in zip(places, drawn, strict=True):
        source, time = log.interactions.source[[place]], log.interactions.time[[place]]
        asked = np.array([[log.interactions.destination[place], other]])
        with torch.inference_mode():
            truth += [1, 0]
            scores += pair_logits(model, graph, source, asked, time)[0].tolist()
    assert found.links == 150
    assert found.average_precision == pytest.approx(average_precision_score(truth, scores), abs=2e-3)


def test_same_model_and_part_give_the_same_figures_and_another_seed_other_negatives(shop, log, part):
    one, same, other = (ask(untrained(shop, 1), log, part, shop.heads, seed).summary() for seed in (7, 7, 8))
    assert one == same
    assert one.average_precision != other.average_precision
    assert one.heads == other.heads


def test_many_links_are_thinned_evenly(shop, log, part, monkeypatch):
    monkeypatch.setattr(comparison, "MOST_LINKS", 50)
    found = ask(untrained(shop, 1), log, part, shop.heads, 7).summary()
    assert found.links == 50
    assert found.heads[0].answers == 150, "answers are few enough anyway"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_model_that_gives_no_numbers_has_no_figures(shop, log, part, bad):
    model = untrained(shop, 1)
    with torch.no_grad():
        for parameter in (*model.affinity.parameters(), *model.heads.parameters()):
            parameter.fill_(bad)
    answers = ask(model, log, part, shop.heads, 7)
    found = answers.summary()
    assert np.isnan(found.average_precision)
    assert np.isnan([found.heads[0].auc, found.heads[0].average_precision, found.heads[0].brier]).all()
    assert found.heads[0].rarer > 0
    error = chance(answers, ask(untrained(shop, 1), log, part, shop.heads, 7))
    assert np.isnan([error.std_error({name: 1.0}) for name in (LINKS, "heads.even.auc", "heads.even.brier")]).all()


def test_chance_has_no_say_between_a_model_and_itself_and_some_between_two(shop, log, part):
    one, other = (ask(untrained(shop, seed), log, part, shop.heads, 7) for seed in (1, 2))
    none, some = chance(one, one), chance(one, other)
    assert [none.std_error({name: 1.0}) for name in (LINKS, "heads.even.auc", "heads.even.brier")] == [0.0, 0.0, 0.0]
    assert 0.005 < some.std_error({LINKS: 1.0}) < 0.2
    assert 0.0 < some.std_error({"heads.even.brier": 1.0}) < 0.1
    assert np.isnan(some.std_error({"heads.odd.auc": 1.0}))
    assert np.isnan(some.std_error({}))


def test_chance_of_a_mean_is_that_of_its_replicates_each_with_its_sign():
    random = np.random.default_rng(3)
    drawn = random.normal(size=(400, 2)) @ [[1.0, 0.5], [0.0, 2.0]]
    found = Chance(("a", "b"), drawn)
    assert found.std_error({"a": 1.0, "b": -1.0}) == pytest.approx(np.std((drawn[:, 0] - drawn[:, 1]) / 2, ddof=1))
    drawn[:381, 0] = np.nan
    assert np.isnan(found.std_error({"a": 1.0})), "defined in 19 rounds"
    assert np.isfinite(found.std_error({"b": 1.0}))


def test_head_figures_are_those_of_the_books():
    random = np.random.default_rng(1)
    truth, probability = (random.random(200) < 0.2).astype(float), random.random(200)
    found = summarise_head("even", HeadAnswers(truth, probability, np.arange(200)))
    assert (found.answers, found.rarer) == (200, int(truth.sum()))
    assert found.auc == pytest.approx(roc_auc_score(truth, probability))
    assert found.average_precision == pytest.approx(average_precision_score(truth, probability))
    assert found.brier == pytest.approx(brier_score_loss(truth, probability))


def test_head_of_one_class_has_a_brier_score_and_no_ranking():
    found = summarise_head("even", HeadAnswers(np.ones(4), np.full(4, 0.75), np.arange(4)))
    assert (found.answers, found.rarer, found.brier) == (4, 0, 0.0625)
    assert np.isnan([found.auc, found.average_precision]).all()
    assert np.isnan(summarise_head("even", HeadAnswers(np.zeros(0), np.zeros(0), np.zeros(0, int))).brier)


def test_card_calls_figures_by_the_part_they_were_measured_on(shop, log, part):
    found = ask(untrained(shop, 1), log, part, shop.heads, 7).summary()
    names = found.by_name()
    assert names["links.newest.average_precision"] == found.average_precision
    assert names["heads.even.newest.auc"] == found.heads[0].auc
    assert names["heads.even.newest.count"] == 150
