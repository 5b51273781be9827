"""Methods over the past: fitted, they tell what happens from what does not, by the past alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from research.baselines.rows import other_affinity
from research.baselines.temporal import TemporalMethod, temporal_methods
from research.baselines.visible import visible
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.scoring import TemporalGraph
from tests.unit.research.baselines.small import circles, task_of

SETTINGS = LinkSettings(epochs=2, batch_size=25, learning_rate=0.01)
SMALL = TemporalMethod("", width=8, time_width=8, neighbours=4, settings=SETTINGS)


def precision_of(scorer, task):
    """Average precision on the task's test part with one random negative."""
    events = np.arange(task.split.test.start, task.split.test.stop)
    times = task.interactions.time[events]
    drawn = RandomNegatives(task.interactions, 7).draw(times, 1, (0,))
    candidates = np.column_stack([task.interactions.destination[events], drawn])
    score = scorer.scores(task.interactions.source[events], candidates, times)
    return average_precision_score(np.tile([1, 0], len(events)), score.ravel())


def test_the_rows_are_the_papers():
    names = [method.name for method in temporal_methods(SMALL)]
    assert names == [
        "TGAT", "Const-TGAT", "GAT", "GAT+T", "GraphSAGE-mean", "GraphSAGE-pool", "GraphSAGE-LSTM", "GraphSAGE+T",
    ]  # fmt: skip
    assert other_affinity(SMALL).name == "TGAT (inner product)"
    assert other_affinity(replace(SMALL, activity=True)).name == "TGAT + pair recurrence"


@pytest.mark.parametrize("method", [*temporal_methods(SMALL), other_affinity(SMALL)], ids=lambda method: method.name)
def test_zero_feature_graph_shows_nothing_to_methods_without_time(method):
    task = circles(200)
    score = precision_of(replace(method, settings=replace(SETTINGS, epochs=1)).fit(task, 0), task)
    if method.reads_time:
        assert np.isfinite(score)
    else:
        assert score == 0.5


@pytest.mark.parametrize("method", temporal_methods(replace(SMALL, activity=True)), ids=lambda method: method.name)
def test_activity_is_seen_by_every_method(method):
    # Destination 1 is met often, the others once each: frequent things happen again.
    random = np.random.default_rng(0)
    count = 300
    destination = np.where(random.random(count) < 0.6, 10, 11 + np.arange(count))
    task = task_of(random.integers(0, 10, count), destination, np.arange(count) * 5.0)
    assert precision_of(method.fit(task, 0), task) > 0.7


def test_pair_features_are_read_in_training_and_in_scoring():
    """Each user meets the own favourite or a new item; as often as the others' favourites, so only the pair tells."""
    random = np.random.default_rng(0)
    source = random.integers(0, 10, 600)
    task = task_of(source, np.where(random.random(600) < 0.8, 10 + source, 10 + random.integers(0, 10, 600)),
                   np.arange(600) * 5.0)  # fmt: skip
    users = np.arange(10)
    others = np.stack([10 + users, 10 + (users + 1) % 10, 10 + (users + 2) % 10], 1)
    asked = users, others, np.full(10, 3000.0)
    settings = replace(SETTINGS, epochs=6)
    plain, recurrent = (
        replace(SMALL, layers=1, pair_features=wanted, settings=settings).fit(task, 0).scores(*asked)
        for wanted in (False, True)
    )
    assert (plain.argmax(1) == 0).mean() < 0.8
    assert (recurrent.argmax(1) == 0).all()


def test_destination_that_nobody_has_met_is_no_sure_positive():
    """One in ten interactions is with a new item: new ones are rarer among positives than among all destinations."""
    random = np.random.default_rng(0)
    count = 400
    destination = np.where(random.random(count) < 0.9, 10 + random.integers(0, 10, count), 20 + np.arange(count))
    task = task_of(random.integers(0, 10, count), destination, np.arange(count) * 5.0)
    scorer = replace(SMALL, activity=True, layers=1).fit(task, 0)
    scores = scorer.scores(np.arange(10), np.array([[10, 11, 12, 900]] * 10), np.full(10, 5.0 * count)).mean(0)
    assert scores[3] < 0 < scores[:3].min()


@pytest.mark.parametrize("method", [*temporal_methods(SMALL), other_affinity(SMALL)], ids=lambda method: method.name)
def test_node_features_of_a_task_are_seen_by_every_method(method):
    """Features tell a node's kind, and there are nodes that no interaction knows."""
    task = circles(400)
    features = np.stack([np.arange(30) % 2, 1 - np.arange(30) % 2, np.arange(30) < 12], 1).astype(np.float32)
    task = replace(task, node_features=features, hidden=np.zeros(30, np.bool_))
    scorer = replace(method, settings=replace(SETTINGS, epochs=6, patience=6)).fit(task, 0)
    same, other = scorer.scores(np.arange(10), np.array([[12, 13], [13, 12]] * 5), np.full(10, 1e4)).mean(0)
    assert same > other
    assert np.isfinite(scorer.scores(np.array([29]), np.array([[28]]), np.array([1e4]))).all()


def test_same_seed_gives_the_same_scores_and_another_does_not():
    task = circles(120)
    query = np.array([0, 1]), np.array([[12, 13], [14, 15]]), np.full(2, 1e6)
    one, two, three = (SMALL.fit(task, seed).scores(*query) for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


@pytest.mark.parametrize("pair_features", [False, True])
def test_scores_do_not_depend_on_what_is_asked_beside_them_nor_on_later_interactions(pair_features):
    task = circles(120)
    torch.manual_seed(0)
    scorer = ModelScorer(
        replace(SMALL, pair_features=pair_features).untrained(), TemporalGraph.of(task.interactions, None)
    )
    cut = 60
    time = task.interactions.time[cut]
    until = task.interactions.select(slice(0, cut))
    early = ModelScorer(scorer.model, TemporalGraph.of(until, None))
    sources, candidates = np.arange(10), 12 + np.arange(30).reshape(10, 3) % 12
    together = scorer.scores(sources, candidates, np.full(10, time))
    alone = [scorer.scores(sources[row : row + 1], candidates[row : row + 1], np.array([time]))[0] for row in range(10)]
    np.testing.assert_allclose(together, alone, atol=2e-5)
    np.testing.assert_allclose(together, early.scores(sources, candidates, np.full(10, time)), atol=2e-5)


def test_nodes_of_which_nothing_is_known_tie_wherever_they_stand_in_a_batch():
    torch.manual_seed(0)
    model = TemporalMethod("", activity=True).untrained()
    scorer = ModelScorer(model, TemporalGraph.of(Interactions.in_time_order([], [], []), None))
    scores = scorer.scores(np.arange(7), np.arange(7 * 143).reshape(7, 143), np.arange(7.0))
    assert len(np.unique(scores)) == 1


def test_scorer_without_questions_answers_none():
    scorer = ModelScorer(SMALL.untrained(), TemporalGraph.of(Interactions.in_time_order([], [], []), None))
    assert scorer.scores(np.zeros(0, np.int64), np.zeros((0, 3), np.int64), np.zeros(0)).shape == (0, 3)


def test_training_sees_no_hidden_node_and_nothing_of_the_test_part():
    task = circles(200, hidden=(3, 14))
    seen, train, validation = visible(task)
    kept = task.interactions
    clean = ~np.isin(kept.source, (3, 14)) & ~np.isin(kept.destination, (3, 14))
    assert (train.stop, validation.stop) == (
        clean[task.split.train].sum(),
        clean[task.split.train].sum() + clean[task.split.validation].sum(),
    )
    assert not np.isin(np.concatenate([seen.source, seen.destination]), (3, 14)).any()
    assert seen.time.max() < kept.time[task.split.test.start]
