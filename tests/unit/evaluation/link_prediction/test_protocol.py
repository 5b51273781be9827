"""The questions that a scorer is asked, and the report made of its answers."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from stream_tgat.errors import DataError
from stream_tgat.evaluation.link_prediction import (
    EvaluationNegatives,
    Group,
    LinkProtocol,
    LinkTask,
    NegativeKind,
    Part,
    evaluate,
    link_task,
    measure,
)
from stream_tgat.graph.interactions import Interactions


def random_task(count=600, seed=0) -> LinkTask:
    random = np.random.default_rng(seed)
    source, destination = random.integers(0, 30, count), random.integers(30, 60, count)
    return link_task("random", Interactions.in_time_order(source, destination, np.sort(random.integers(0, 300, count))))


@dataclass
class Answer:
    """Says what a function of (source, destination, time) says; keeps what it was asked."""

    function: object
    asked: list = field(default_factory=list)

    def scores(self, sources, destinations, times):
        self.asked.append((sources, destinations, times))
        return np.asarray(self.function(sources[:, None], destinations, times[:, None]) * np.ones(destinations.shape))


def knows_everything(task):
    happened = {
        (int(s), int(d), float(t))
        for s, d, t in zip(task.interactions.source, task.interactions.destination, task.interactions.time, strict=True)
    }
    return np.vectorize(lambda s, d, t: float((int(s), int(d), float(t)) in happened))


def test_one_who_knows_everything_has_full_marks_everywhere():
    task = random_task()
    validation = evaluate(task, Answer(knows_everything(task)), Part.VALIDATION)
    report = evaluate(task, Answer(knows_everything(task)), Part.TEST, threshold=validation.threshold)
    assert report.pair().count == len(task.events(Part.TEST))
    for each in report.pairs:
        if each.count:
            figures = each.average_precision, each.batch_average_precision, each.auc, each.accuracy
            assert figures == (1, 1, 1, 1), each
    for rank in report.ranks:
        if rank.count:
            assert (rank.mrr, rank.hits_at_10) == (1, 1)


def test_one_who_says_the_same_of_all_is_at_chance():
    report = evaluate(random_task(), Answer(lambda s, d, t: 0.0), Part.TEST, threshold=0.0)
    pair = report.pair()
    assert (pair.average_precision, pair.auc, pair.accuracy) == (0.5, 0.5, 0.5)
    # 29 or fewer of the 30 destinations are candidates, so the middle is near 15: no hit among ten.
    assert report.rank().hits_at_10 == 0
    assert 1 / 15.5 <= report.rank().mrr < 1 / 14


def test_questions_come_in_time_order_and_every_interaction_is_asked_the_last_batch_included():
    task = random_task()
    scorer = Answer(lambda s, d, t: 0.0)
    evaluate(task, scorer, Part.TEST, LinkProtocol(batch_size=40, ranked=0))
    times = np.concatenate([times for _, _, times in scorer.asked])
    assert (np.diff(times) >= 0).all()
    events = task.events(Part.TEST)
    assert_array_equal(times, task.interactions.time[events])
    assert_array_equal(np.concatenate([s for s, _, _ in scorer.asked]), task.interactions.source[events])
    assert_array_equal(np.concatenate([d[:, 0] for _, d, _ in scorer.asked]), task.interactions.destination[events])


def test_batch_size_changes_neither_negatives_nor_pooled_figures():
    task = random_task()
    odd = lambda s, d, t: np.sin(s * 13.7 + d * 5.1 + t)  # noqa: E731
    one, two = (evaluate(task, Answer(odd), Part.TEST, LinkProtocol(batch_size=size), 0.0) for size in (7, 200))
    for a, b in zip(one.pairs, two.pairs, strict=True):
        assert (a.count, a.auc) == (b.count, pytest.approx(b.auc, nan_ok=True))
    assert one.rank() == two.rank()


def test_figures_are_those_of_the_negatives_of_the_kind_and_the_rows_of_the_group():
    """A scorer that scores destinations by their number: AUC recomputed from the drawn negatives."""
    task = random_task()
    report = evaluate(task, Answer(lambda s, d, t: d * 1.0), Part.TEST, LinkProtocol(seed=3))
    events = task.events(Part.TEST)
    happened = task.interactions.destination[events]
    for kind in NegativeKind:
        drawn = EvaluationNegatives(task, 3).draw(kind, events, 1)[:, 0]
        for group in Group:
            rows = task.in_group(events, group) & (drawn >= 0)
            pairs = (happened[rows][:, None] > drawn[rows]) + (happened[rows][:, None] == drawn[rows]) / 2
            expected = pairs.mean() if rows.any() else math.nan
            found = report.pair(kind, group)
            assert found.count == rows.sum()
            assert found.auc == pytest.approx(expected, nan_ok=True)


def test_ranks_are_among_all_other_destinations_when_there_are_fewer_than_asked_for():
    """A scorer that scores destinations by their number: ranks by sets, destinations of the future included."""
    drawn = random_task(200).interactions
    future = np.concatenate([drawn.destination[:-1], [70]])
    task = link_task("future", Interactions(drawn.source, future, drawn.time, drawn.edge))
    report = evaluate(task, Answer(lambda s, d, t: d * 1.0), Part.TEST)
    rows = list(zip(task.interactions.source, task.interactions.destination, task.interactions.time, strict=True))
    ranks = []
    for source, destination, time in rows[task.split.test]:
        others = {d for _, d, _ in rows} - {d for s, d, t in rows if (s, t) == (source, time)}
        ranks.append(1 + sum(other > destination for other in others))
    assert 10 in ranks
    assert report.rank().mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    assert report.rank().hits_at_10 == pytest.approx(np.mean(np.array(ranks) <= 10))


def test_share_of_random_negatives_that_were_never_seen_is_that_of_a_count_by_hand():
    """Destinations come into use one after the other, so that each moment has some that are still to come."""
    random = np.random.default_rng(0)
    count = 400
    time = np.arange(count, dtype=np.float64)
    destination = 30 + random.integers(0, 1 + (time / 10).astype(int))
    task = link_task("growing", Interactions.in_time_order(random.integers(0, 30, count), destination, time))
    report = evaluate(task, Answer(lambda s, d, t: 0.0), Part.TEST, LinkProtocol(batch_size=17, ranked=0, seed=4))
    events = task.events(Part.TEST)
    drawn = EvaluationNegatives(task, 4).draw(NegativeKind.RANDOM, events, 1)[:, 0]
    new = [one not in destination[:event] for event, one in zip(events, drawn, strict=True)]
    assert 0 < sum(new) < len(new)
    assert report.never_seen == pytest.approx(np.mean(new))


def test_threshold_of_validation_is_the_one_of_test_and_test_chooses_none():
    task = random_task()
    assert math.isnan(evaluate(task, Answer(lambda s, d, t: d), Part.TEST).pair().accuracy)
    seen = []

    class Method:
        name = "by number"

        def fit(self, task, seed):
            seen.append(seed)
            return Answer(lambda s, d, t: d * 1.0)

    found = measure(task, Method(), seed=5)
    assert seen == [5]
    assert found.test.threshold == found.validation.threshold
    assert found.validation.part is Part.VALIDATION
    assert found.validation.pair().accuracy >= 0.5


def test_ranking_of_some_leaves_the_pairs_as_they_are():
    task = random_task()
    some = evaluate(task, Answer(lambda s, d, t: d), Part.TEST, LinkProtocol(ranked=20), 0.0)
    assert some.rank().count == 20
    none = evaluate(task, Answer(lambda s, d, t: d), Part.TEST, LinkProtocol(ranked=0), 0.0)
    assert none.ranks == ()
    assert some.pairs[0] == none.pairs[0]


@pytest.mark.parametrize(
    ("scorer", "reason"),
    [(lambda s, d, t: np.nan, "not finite"), (lambda s, d, t: np.inf, "not finite")],
)
def test_answers_that_are_no_numbers_are_refused(scorer, reason):
    with pytest.raises(DataError, match=reason):
        evaluate(random_task(), Answer(scorer), Part.TEST)


def test_answers_of_another_shape_are_refused():
    class Short:
        def scores(self, sources, destinations, times):
            return np.zeros(len(sources))

    with pytest.raises(DataError, match="shape"):
        evaluate(random_task(), Short(), Part.TEST)
