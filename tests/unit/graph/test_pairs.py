"""Pair recurrence against a scan, and in closed form."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.pairs import PAIR_WIDTH, RECURRENCE_WIDTH, pair_features, recurrence


def of_history(history: TemporalAdjacency, nodes, times, candidates, kept: int):
    found = history.recent(nodes, times, kept)
    return recurrence(times, found.node, found.time, found.mask, candidates)


def test_recurrence_closed_form() -> None:
    """Node 0 met 7 twice, the last time 4 s ago and with one interaction since; 8 just now; 9 never."""
    history = TemporalAdjacency(Interactions.in_time_order([0, 7, 0, 0], [7, 0, 8, 8], [1.0, 6.0, 9.0, 10.0]))
    got = of_history(history, np.array([0]), np.array([10.0]), np.array([[7, 8, 9]]), 5)[0]
    expected = [
        [math.log(3), math.log(5), math.log(2)],
        [math.log(2), math.log(2), 0.0],
        [0.0, -1.0, -1.0],
    ]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_what_is_no_longer_kept_is_forgotten() -> None:
    history = TemporalAdjacency(Interactions.in_time_order([0, 0, 0], [7, 8, 8], [1.0, 2.0, 3.0]))
    seven = [of_history(history, np.array([0]), np.array([9.0]), np.array([[7]]), kept)[0, 0, 0] for kept in (3, 2)]
    np.testing.assert_allclose(seven, [math.log(2), 0.0], rtol=1e-6)


def test_padding_is_no_meeting_with_node_zero() -> None:
    history = TemporalAdjacency(Interactions.in_time_order([1], [2], [1.0]))
    np.testing.assert_array_equal(
        of_history(history, np.array([1, 3]), np.array([5.0, 5.0]), np.array([[0], [0]]), 4)[:, 0], [[0, -1, -1]] * 2
    )


def test_nothing_kept_means_nothing_known() -> None:
    none = np.zeros((2, 0))
    got = recurrence(np.zeros(2), none.astype(np.int64), none, none.astype(bool), np.zeros((2, 3), np.int64))
    assert got.shape == (2, 3, RECURRENCE_WIDTH)
    np.testing.assert_array_equal(got[0, 0], [0, -1, -1])


def test_pair_features_tell_what_each_end_has_kept() -> None:
    """0 met 7 twice, the second time 4 s ago; then 0 met 8 once and 7 met others twice, so that 7 keeps one meeting."""
    history = TemporalAdjacency(Interactions.in_time_order([0, 0, 0, 5, 7], [7, 7, 8, 7, 6], [1.0, 6.0, 7.0, 8.0, 9.0]))
    got = pair_features(history, np.array([0]), np.array([[7, 8, 9]]), np.array([10.0]), 3)
    assert got.shape == (1, 3, PAIR_WIDTH)
    met, never = math.log(2), [0.0, -1.0, -1.0]
    expected = [
        [math.log(3), math.log(5), met, met, math.log(5), math.log(3)],
        [met, math.log(4), 0.0, met, math.log(4), 0.0],
        never + never,
    ]
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)


def test_pair_features_of_each_source_are_its_own() -> None:
    history = TemporalAdjacency(Interactions.in_time_order([0, 1, 0], [3, 4, 4], [1.0, 2.0, 3.0]))
    nodes, asked, times = np.array([0, 1]), np.array([[3, 4], [4, 3]]), np.array([3.0, 9.0])
    together = pair_features(history, nodes, asked, times, 5)
    for row, column in np.ndindex(2, 2):
        alone = pair_features(history, nodes[[row]], asked[row, [[column]]], times[[row]], 5)
        np.testing.assert_array_equal(together[row, column], alone[0, 0])
    np.testing.assert_allclose(together[0, 1], [0, -1, -1, 0, -1, -1])  # at 3.0 they are about to meet


@settings(max_examples=80, deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 6)), max_size=25),
    kept=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_recurrence_equals_a_scan(events: list[tuple[int, int, int]], kept: int, seed: int) -> None:
    source, destination, time = np.array(events, np.int64).reshape(-1, 3).T
    interactions = Interactions.in_time_order(source, destination, time.astype(np.float64))
    history, random = TemporalAdjacency(interactions, 4), np.random.default_rng(seed)
    nodes, candidates = random.integers(0, 4, 6), random.integers(0, 4, (6, 2))
    times = random.integers(0, 8, 6).astype(np.float64)
    got = of_history(history, nodes, times, candidates, kept)
    for row, column in np.ndindex(6, 2):
        past = []
        for u, v, t in zip(interactions.source, interactions.destination, interactions.time, strict=True):
            for own, peer in ((u, v), (v, u)):
                if own == nodes[row] and t < times[row]:
                    past.append((peer, t))
        past = past[-kept:]
        met = [place for place, (peer, _) in enumerate(past) if peer == candidates[row, column]]
        expected = (
            [math.log1p(len(met)), math.log1p(times[row] - past[met[-1]][1]), math.log1p(len(past) - 1 - met[-1])]
            if met
            else [0.0, -1.0, -1.0]
        )
        np.testing.assert_allclose(got[row, column], expected, rtol=1e-6)
