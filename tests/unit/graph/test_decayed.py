"""Decayed sums against the sum as it is defined."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.decayed import compressed, decayed_sums
from stream_tgat.graph.interactions import Interactions


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
    assert_allclose(
        decayed_sums(TemporalAdjacency(found, 11), nodes, asked, (3.0, 20.0)), expected.reshape(60, 6), atol=1e-5
    )


def test_node_without_past_has_zeros():
    one = Interactions.in_time_order([0], [1], [5.0], [[2.0]])
    assert_array_equal(
        decayed_sums(TemporalAdjacency(one), np.array([0, 1]), np.array([5.0, 1.0]), (3.0,)), np.zeros((2, 2))
    )


def test_nothing_asked_and_no_constant_give_nothing():
    one = TemporalAdjacency(Interactions.in_time_order([0], [1], [5.0], [[2.0]]))
    assert decayed_sums(one, np.zeros(0, np.int64), np.zeros(0), (3.0, 5.0)).shape == (0, 4)
    assert decayed_sums(one, np.array([0]), np.array([9.0]), ()).shape == (1, 0)
    assert decayed_sums(one, np.zeros(0, np.int64), np.zeros(0), ()).shape == (0, 0)


def test_past_beyond_any_short_span_does_not_overflow():
    """A thousand time constants lie between the first interaction and the last."""
    two = Interactions.in_time_order([0, 0], [1, 1], [0.0, 7000.0], [[2.0], [3.0]])
    found = decayed_sums(TemporalAdjacency(two), np.array([0]), np.array([7007.0]), (7.0,))
    assert_allclose(found, [[np.exp(-1), 3 * np.exp(-1)]], rtol=1e-6)


def test_compressed_keeps_signs_and_shortens_tails():
    assert_allclose(compressed(np.array([-np.e + 1, 0.0, np.e**5 - 1])), [-1, 0, 5], rtol=1e-6)
