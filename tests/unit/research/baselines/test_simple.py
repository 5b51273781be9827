"""Rules and hand-made features by definition, and what every method of link prediction must keep to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from research.baselines.hand_made import FEATURE_NAMES, FittedClassifier, HandMade, PairFeatures, TreeSize
from stream_tgat.evaluation.link_prediction import LinkProtocol, LinkTask, NegativeKind, Part, evaluate, link_task
from stream_tgat.evaluation.link_prediction.rules import DestinationRecency, EdgeBank, PairRecency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split

METHODS = [EdgeBank(), EdgeBank(windowed=True), DestinationRecency(), PairRecency(), HandMade("mlp"), HandMade("trees")]


def returning_task(count=1500, seed=0, later=0):
    """Each source returns to its last destination four times of five. `later` changes what comes after training."""
    random = np.random.default_rng(seed)
    change = np.random.default_rng(seed + later)
    last = random.integers(20, 40, 20)
    source, destination = np.zeros((2, count), np.int64)
    for event in range(count):
        draw = random if event < count * 0.85 else change
        source[event] = draw.integers(20)
        if draw.random() > 0.8:
            last[source[event]] = draw.integers(20, 40)
        destination[event] = last[source[event]]
    return link_task("returning", Interactions.in_time_order(source, destination, np.arange(count) * 10.0))


def tiny_task():
    interactions = Interactions.in_time_order([0, 1, 0, 1], [2, 2, 3, 3], [0.0, 10.0, 90.0, 100.0])
    return LinkTask("tiny", interactions, Split(slice(0, 3), slice(3, 3), slice(3, 4)), np.zeros(4, np.bool_))


def scores_of(method, sources, destinations, times):
    return method.fit(tiny_task(), 0).scores(np.array(sources), np.array(destinations), np.array(times, float))


def test_edge_bank_remembers_what_is_strictly_earlier_in_the_same_roles():
    assert_array_equal(scores_of(EdgeBank(), [0, 0, 0], [[2, 3]] * 3, [0, 50, 95]), [[0, 0], [1, 0], [1, 1]])
    assert_array_equal(scores_of(EdgeBank(), [2], [[0]], [95]), [[0]])


def test_edge_bank_with_a_window_forgets():
    # The newest 15 % of the training times 0, 10, 90 begin at 66: a window of 24 seconds.
    assert_array_equal(scores_of(EdgeBank(windowed=True), [0, 0], [[2, 3]] * 2, [24, 114]), [[1, 0], [0, 1]])
    assert_array_equal(scores_of(EdgeBank(windowed=True), [0], [[2, 3]], [115]), [[0, 0]])


def test_destination_recency_is_that_of_any_interaction():
    assert_allclose(scores_of(DestinationRecency(), [0], [[2, 3, 1]], [95]), [[1 / 86, 1 / 6, 1 / 86]])
    assert_array_equal(scores_of(DestinationRecency(), [0], [[2, 3]], [0]), [[0, 0]])


def test_pair_recency_puts_who_met_before_all_others():
    # 1 met 2 long ago and never 3, which was active a moment ago.
    assert_allclose(scores_of(PairRecency(), [1], [[2, 3]], [95]), [[1 + 1 / 86, 1 / 6]])
    assert_allclose(scores_of(PairRecency(), [2], [[1]], [95]), [[1 + 1 / 86]])


def test_features_by_hand():
    features = PairFeatures(tiny_task().interactions, 4).of(
        np.array([0, 1]), np.array([[2], [3]]), np.array([95.0, 95.0])
    )
    log = np.log1p
    assert_allclose(features[0, 0], [log(2), log(5), -1, log(2), log(85), -1, log(1), log(95), log(1)], rtol=1e-6)
    assert_allclose(features[1, 0], [log(1), log(85), -1, log(1), log(5), -1, 0, -1, -1], rtol=1e-6)
    assert features.shape[-1] == len(FEATURE_NAMES)


def test_learnt_classifiers_know_a_returning_user():
    task = returning_task()
    for classifier in ("mlp", "trees"):
        scorer = HandMade(classifier).fit(task, 0)
        report = evaluate(task, scorer, Part.TEST, LinkProtocol(kinds=(NegativeKind.RANDOM,), ranked=0))
        # Four of five return and are told surely; the fifth is a guess, right half of the time.
        assert report.pair().average_precision > 0.88, classifier


def test_trees_of_the_size_that_validates_best_are_kept():
    task, stump, enough = returning_task(), TreeSize(1, 0.1, 2, 400), TreeSize(60, 0.1, 8, 20)
    asked = task.interactions.source[-50:], np.tile(np.arange(20, 40), (50, 1)), task.interactions.time[-50:]
    alone, worse = (HandMade("trees", sizes=(size,)).fit(task, 0).scores(*asked) for size in (enough, stump))
    for sizes in ((stump, enough), (enough, stump)):
        assert_array_equal(HandMade("trees", sizes=sizes).fit(task, 0).scores(*asked), alone)
    assert not np.array_equal(alone, worse)


def test_more_than_at_most_are_spread_over_time():
    task = returning_task()
    x, y = HandMade("trees", negatives=2, at_most=100)._examples(task, 0)
    assert y.sum() == 100
    assert len(x) == 300


def test_a_share_of_what_is_learnt_as_not_happening_met_before():
    task, at = returning_task(), FEATURE_NAMES.index("log_meetings")
    met = {}
    for share in (0.0, 0.5, 1.0):
        x, y = HandMade("trees", negatives=4, historical_share=share)._examples(task, 0)
        met[share] = (x[y == 0, at] > 0).mean()
    # With all of them historical, only those remain random whose source has met nobody else yet: the first meetings.
    assert met[1.0] > 0.9
    assert met[0.5] == pytest.approx((met[0.0] + met[1.0]) / 2, abs=0.03)


def test_hidden_nodes_are_not_learnt_from():
    task = returning_task()
    hidden = np.flatnonzero(task.hidden)
    of_hidden = np.isin(task.interactions.source, hidden) | np.isin(task.interactions.destination, hidden)
    assert of_hidden[task.split.train].any()
    other = Interactions(
        task.interactions.source,
        np.where(of_hidden, hidden[-1], task.interactions.destination),
        task.interactions.time,
        task.interactions.edge,
    )
    changed = LinkTask(task.name, other, task.split, task.hidden)
    for one, two in zip(HandMade("trees")._examples(task, 0), HandMade("trees")._examples(changed, 0), strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.name)
class TestEveryMethod:
    def test_scores_do_not_depend_on_what_comes_at_or_after_their_time(self, method):
        one, two = returning_task(later=1), returning_task(later=2)
        events = one.events(Part.VALIDATION)
        assert (one.interactions.destination[one.split.test] != two.interactions.destination[two.split.test]).any()
        answers = []
        for drawn in (one, two):
            # The same nodes are hidden in both, whoever comes later.
            task = LinkTask(drawn.name, drawn.interactions, drawn.split, one.hidden)
            candidates = np.tile(np.arange(20, 40), (len(events), 1))
            scorer = method.fit(task, 0)
            answers.append(scorer.scores(task.interactions.source[events], candidates, task.interactions.time[events]))
        assert_array_equal(*answers)

    def test_scores_do_not_depend_on_other_candidates_rows_or_batches(self, method):
        task = returning_task()
        scorer = method.fit(task, 0)
        events = task.events(Part.TEST)[:40]
        source, time = task.interactions.source[events], task.interactions.time[events]
        candidates = np.random.default_rng(0).integers(20, 40, (40, 6))
        together = scorer.scores(source, candidates, time)
        assert together.shape == (40, 6)
        apart = [scorer.scores(source[[row]], candidates[[row], 3:4], time[[row]])[0, 0] for row in range(40)]
        assert_allclose(together[:, 3], apart, rtol=1e-5)

    def test_same_seed_gives_the_same_scores_and_a_node_never_heard_of_has_one(self, method):
        task = returning_task()
        events = task.events(Part.TEST)[:20]
        candidates = np.tile([20, 25, 39], (20, 1))
        asked = task.interactions.source[events], candidates, task.interactions.time[events]
        assert_array_equal(method.fit(task, 1).scores(*asked), method.fit(task, 1).scores(*asked))
        first = method.fit(task, 1).scores(np.array([0]), np.array([[20]]), np.array([-1.0]))
        assert np.isfinite(first).all()
        assert method.fit(task, 1).scores(np.zeros(0, int), np.zeros((0, 3), int), np.zeros(0)).shape == (0, 3)


class Certain:
    """A classifier that rounds to certainty, in float32, as networks do."""

    def fit(self, x, y):
        return self

    def predict_proba(self, x):
        return np.tile(np.array([0.0, 1.0], np.float32), (len(x), 1))


def test_certainty_is_a_finite_score():
    features = PairFeatures(Interactions.in_time_order([0], [1], [0.0]), 2)
    scores = FittedClassifier(features, Certain()).scores(np.array([0]), np.array([[1]]), np.array([5.0]))
    assert np.isfinite(scores).all()
    assert scores.item() > 700
