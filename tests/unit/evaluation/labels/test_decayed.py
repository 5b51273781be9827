"""Decayed sums against the sum as it is defined, and what they tell that heads alone do not see."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.evaluation.labels import LabelTask, Part, label_task, measure
from stream_tgat.evaluation.labels.decayed import DAY_S, DecayedSums, decayed_sums
from stream_tgat.evaluation.labels.methods import EventOnly, Heads
from stream_tgat.evaluation.labels.protocol import LabelProtocol
from stream_tgat.graph.history import History
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.fitting import HeadSettings
from stream_tgat.training.log import LabelSet

QUICK = LabelProtocol(rounds=20)
HEADS = Heads(HeadSettings(epochs=15, penalties=(0.01,), learning_rate=0.01), dropout=0.1)


def test_sums_are_over_the_strict_past_of_either_end():
    """Term by term, ties of time included: both ends of an interaction have it in their past, none at its own time."""
    random = np.random.default_rng(0)
    time = random.integers(0, 40, 120).astype(np.float64)
    found = Interactions.in_time_order(
        random.integers(0, 5, 120), 5 + random.integers(0, 4, 120), time, random.normal(size=(120, 2))
    )
    nodes, asked = random.integers(0, 11, 60), random.integers(0, 50, 60).astype(np.float64)
    expected = np.zeros((60, 2, 3))
    for at, (node, now) in enumerate(zip(nodes, asked, strict=True)):
        for source, destination, then, edge in zip(
            found.source, found.destination, found.time, found.edge, strict=True
        ):
            if node in (source, destination) and then < now:
                for place, constant in enumerate((3.0, 20.0)):
                    expected[at, place] += np.exp(-(now - then) / constant) * np.array([1.0, *edge])
    assert_allclose(decayed_sums(History(found, 11), nodes, asked, (3.0, 20.0)), expected.reshape(60, 6), atol=1e-5)


def test_node_without_past_has_zeros():
    one = Interactions.in_time_order([0], [1], [5.0], [[2.0]])
    assert_array_equal(decayed_sums(History(one), np.array([0, 1]), np.array([5.0, 1.0]), (3.0,)), np.zeros((2, 2)))


def test_past_beyond_any_short_span_does_not_overflow():
    """A thousand time constants lie between the first interaction and the last."""
    two = Interactions.in_time_order([0, 0], [1, 1], [0.0, 7000.0], [[2.0], [3.0]])
    found = decayed_sums(History(two), np.array([0]), np.array([7007.0]), (7.0,))
    assert_allclose(found, [[np.exp(-1), 3 * np.exp(-1)]], rtol=1e-6)


def busy(count: int = 900) -> LabelTask:
    """Yes when the user did more than usual in the fortnight before."""
    random = np.random.default_rng(0)
    time = np.sort(random.random(count)) * 200 * DAY_S
    users = random.integers(0, 12, count)
    interactions = Interactions.in_time_order(
        users, 12 + random.integers(0, 5, count), time, random.normal(size=(count, 1))
    )
    history = History(interactions)
    recent = history.before(users, time)[1] - history.before(users, time - 14 * DAY_S)[1]
    labels = LabelSet(np.arange(count), (recent > np.median(recent)).astype(np.float64), time)
    return label_task("busy", interactions, None, {"busy": labels}, {"busy": np.repeat([0, 1, 2], count // 3)})


def test_heads_over_sums_know_how_busy_a_user_was():
    asked = busy()
    alone, sums = (measure(asked, method, 0, QUICK) for method in (EventOnly(HEADS), DecayedSums(heads=HEADS)))
    assert alone.mean_auc(Part.TEST) < 0.65
    assert sums.mean_auc(Part.TEST) > 0.85
