"""Negatives against their definitions, checked by sets; the same for every method, order and batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from stream_tgat.evaluation.link_prediction import ABSENT, EvaluationNegatives, LinkTask, NegativeKind
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(4, 8), st.integers(0, 12)), min_size=4, max_size=40)


def task_of(events, hidden=()):
    source, destination, time = np.array(sorted(events, key=lambda each: each[2]), np.int64).T
    interactions = Interactions.in_time_order(source, destination, time)
    cut = int(np.searchsorted(interactions.time, interactions.time[len(events) // 2], "right"))
    mask = np.zeros(9, np.bool_)
    mask[list(hidden)] = True
    split = Split(slice(0, cut), slice(cut, cut), slice(cut, len(interactions)))
    return LinkTask("drawn", interactions, split, mask)


def allowed(task, kind, event):
    """The destinations that the definition allows, by sets."""
    rows = list(zip(task.interactions.source, task.interactions.destination, task.interactions.time, strict=True))
    source, _, now = rows[event]
    training = {(s, d) for place, (s, d, _) in enumerate(rows) if place in set(task.train.tolist())}
    before = {d for _, d, t in rows if t < now}
    later = [row for place, row in enumerate(rows) if place >= task.split.train.stop]
    candidates = {
        NegativeKind.RANDOM: {d for _, d, _ in rows},
        NegativeKind.EVER_SEEN: before,
        NegativeKind.NEVER_SEEN: {d for _, d, _ in rows} - before,
        NegativeKind.HISTORICAL: {d for s, d in training if s == source},
        NegativeKind.INDUCTIVE: {d for s, d, t in later if s == source and t < now and (s, d) not in training},
    }[kind]
    return {int(d) for d in candidates} - {int(d) for s, d, t in rows if s == source and t == now}


@settings(max_examples=60, deadline=None)
@given(events=EVENTS, hidden=st.sets(st.integers(0, 8), max_size=2), kind=st.sampled_from(list(NegativeKind)))
def test_asking_for_more_than_there_are_gives_all_that_the_definition_allows(events, hidden, kind):
    task = task_of(events, hidden)
    drawn = EvaluationNegatives(task).draw(kind, np.arange(len(events)), 9)
    for event, row in enumerate(drawn):
        found = row[row != ABSENT].tolist()
        assert sorted(found) == sorted(allowed(task, kind, event))
        assert row[: 9 - len(found)].tolist() == [ABSENT] * (9 - len(found))


@settings(max_examples=40, deadline=None)
@given(events=EVENTS, kind=st.sampled_from(list(NegativeKind)), seed=st.integers(0, 1000))
def test_what_is_drawn_is_different_and_allowed(events, kind, seed):
    task = task_of(events)
    drawn = EvaluationNegatives(task, seed).draw(kind, np.arange(len(events)), 2)
    for event, row in enumerate(drawn):
        found = row[row != ABSENT].tolist()
        assert len(set(found)) == len(found) == min(2, len(allowed(task, kind, event)))
        assert set(found) <= allowed(task, kind, event)


def repeated_task(count=4000):
    """Source 0 meets 4 at every other time; in between sources 1 … 3 meet 5 … 8."""
    other = np.random.default_rng(0).integers(0, 4, count)
    return task_of([(0, 4, 2 * i) if i % 2 else (1 + other[i] % 3, 5 + other[i], 2 * i) for i in range(count)])


def test_draws_are_uniform_over_what_is_allowed():
    task = repeated_task()
    events = np.flatnonzero(task.interactions.source == 0)[100:]
    drawn = EvaluationNegatives(task, 5).draw(NegativeKind.RANDOM, events, 1).ravel()
    shares = np.bincount(drawn, minlength=9)[4:] / len(drawn)
    assert shares[0] == 0
    assert np.abs(shares[1:] - 1 / 4).max() < 0.03


def test_draws_do_not_depend_on_order_or_batch():
    task = repeated_task(400)
    events = np.arange(200, 400)
    together = EvaluationNegatives(task, 1).draw(NegativeKind.EVER_SEEN, events, 2)
    negatives = EvaluationNegatives(task, 1)
    apart = [negatives.draw(NegativeKind.EVER_SEEN, events[[row]], 2)[0] for row in reversed(range(200))]
    assert_array_equal(together, apart[::-1])
    assert (together != EvaluationNegatives(task, 2).draw(NegativeKind.EVER_SEEN, events, 2)).any()


@pytest.mark.parametrize("kind", [NegativeKind.HISTORICAL, NegativeKind.INDUCTIVE])
def test_source_without_such_a_past_has_no_negative(kind):
    task = task_of([(0, 4, 0), (0, 5, 1), (0, 4, 2), (1, 6, 3), (1, 7, 4)])
    negatives = EvaluationNegatives(task)
    assert_array_equal(negatives.draw(NegativeKind.HISTORICAL, np.array([3]), 1), [[ABSENT]])
    assert_array_equal(negatives.draw(NegativeKind.INDUCTIVE, np.array([3, 4]), 1), [[ABSENT], [6]])


def test_never_seen_is_told_apart():
    task = task_of([(0, 4, 0), (0, 5, 1), (1, 6, 2), (1, 7, 2)])
    drawn = np.array([[4, 5, 6, 7, ABSENT]] * 2)
    expected = [[False, True, True, True, False], [False, False, True, True, False]]
    assert_array_equal(EvaluationNegatives(task).never_seen(np.array([1, 2]), drawn), expected)
