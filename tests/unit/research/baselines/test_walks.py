"""Walks follow edges, forward in time where they have one, in the right proportions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.baselines.walks import ENDED, Adjacency, random_walks, temporal_walks
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions


def interactions(rows):
    source, destination, time = zip(*rows, strict=True) if rows else ((), (), ())
    return Interactions.in_time_order(source, destination, time)


ROWS = [(0, 1, 1.0), (1, 0, 2.0), (0, 1, 3.0), (1, 2, 4.0), (2, 0, 5.0), (1, 3, 6.0), (3, 1, 7.0)]
"""0-1 thrice, 1-2 once, 0-2 once, 1-3 twice; node 4 exists and has met nobody."""


def graph(weighted=True):
    return Adjacency.of(interactions(ROWS), 5, weighted=weighted)


def shares(values):
    nodes, count = np.unique(values, return_counts=True)
    return dict(zip(nodes.tolist(), count / count.sum(), strict=True))


def test_adjacency_counts_recurrence_both_ways():
    found = graph()
    assert found.offsets.tolist() == [0, 2, 5, 7, 8, 8]
    assert found.neighbours.tolist() == [1, 2, 0, 2, 3, 0, 1, 1]
    assert found.weights.tolist() == [3, 1, 3, 1, 2, 1, 1, 2]
    assert set(graph(weighted=False).weights) == {1.0}
    assert found.active.tolist() == [0, 1, 2, 3]


def test_adjacency_counts_an_interaction_with_oneself_once():
    found = Adjacency.of(interactions([(0, 0, 1.0), (0, 1, 2.0), (0, 0, 3.0)]), 2, weighted=True)
    assert found.neighbours.tolist() == [0, 1, 0]
    assert found.weights.tolist() == [2, 1, 1]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 9)), min_size=1), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_walks_start_everywhere_and_follow_edges(rows, seed):
    found = Adjacency.of(interactions(rows), 9, weighted=True)
    walks = random_walks(found, 2, 5, np.random.default_rng(seed), p=0.5, q=2.0)
    met = {frozenset(row[:2]) for row in rows}
    assert sorted(walks[:, 0]) == sorted(2 * list({node for edge in met for node in edge}))
    for walk in walks.tolist():
        assert all(frozenset(pair) in met for pair in pairwise(walk))


def test_first_step_is_in_proportion_to_recurrence():
    walks = random_walks(graph(), 40_000, 2, np.random.default_rng(0), p=0.6)
    assert shares(walks[walks[:, 0] == 1, 1]) == pytest.approx({0: 3 / 6, 2: 1 / 6, 3: 2 / 6}, abs=0.01)


def test_unweighted_walk_takes_each_neighbour_alike():
    walks = random_walks(graph(weighted=False), 40_000, 2, np.random.default_rng(0))
    assert shares(walks[walks[:, 0] == 1, 1]) == pytest.approx(dict.fromkeys((0, 2, 3), 1 / 3), abs=0.01)


@pytest.mark.parametrize(("p", "q"), [(0.6, 1.0), (0.8, 1.0), (0.5, 2.0), (4.0, 0.5)])
def test_second_step_follows_p_and_q(p, q):
    walks = random_walks(graph(), 60_000, 3, np.random.default_rng(1), p, q)
    came = walks[(walks[:, 0] == 0) & (walks[:, 1] == 1)]
    # From 0 to 1: back to 0 (met 3 times), on to 2 (once, and 2 knows 0), on to 3 (twice, and 3 does not know 0).
    mass = {0: 3 / p, 2: 1.0, 3: 2 / q}
    expected = {node: each / sum(mass.values()) for node, each in mass.items()}
    assert shares(came[:, 2]) == pytest.approx(expected, abs=0.012)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 6)), min_size=1), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_temporal_walks_never_go_back_in_time(rows, seed):
    walks = temporal_walks(TemporalAdjacency(interactions(rows)), 20, 6, np.random.default_rng(seed))
    for walk in walks:
        nodes = walk[walk != ENDED].tolist()
        assert (walk[len(nodes) :] == ENDED).all()
        assert len(nodes) >= 2
        now = -1
        for one, other in pairwise(nodes):
            later = [time for a, b, time in rows if {a, b} == {one, other} and time > now]
            assert later, "no interaction of the two lies after what was walked so far, at the earliest"
            now = min(later)


def test_temporal_walk_takes_each_later_interaction_alike():
    rows = [(0, 1, 1.0), (1, 2, 2.0), (1, 3, 3.0), (1, 3, 4.0), (1, 4, 0.5), (1, 5, 1.0)]
    walks = temporal_walks(TemporalAdjacency(interactions(rows)), 60_000, 3, np.random.default_rng(0))
    came = walks[(walks[:, 0] == 0) & (walks[:, 1] == 1)]
    assert shares(came[:, 2]) == pytest.approx({2: 1 / 3, 3: 2 / 3}, abs=0.012)
    assert shares(walks[:, 0])[0] == pytest.approx(1 / 12, abs=0.005)


def test_without_interactions_there_is_nowhere_to_go():
    nothing = interactions([])
    assert random_walks(Adjacency.of(nothing, 3, weighted=True), 4, 5, np.random.default_rng(0)).shape == (0, 5)
    assert (temporal_walks(TemporalAdjacency(nothing), 0, 5, np.random.default_rng(0)) == ENDED).all()
