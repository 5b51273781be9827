"""Look-ups in the past against a scan over all interactions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.errors import DataError
from stream_tgat.graph.activity import activity
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions

EVENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 6)), max_size=30)
QUERIES = st.lists(
    st.tuples(st.integers(0, 7), st.one_of(st.integers(-1, 8).map(float), st.just(math.inf), st.just(2.5))), max_size=8
)


def history_of(events: list[tuple[int, int, int]]) -> TemporalAdjacency:
    source, destination, time = np.array(events, np.int64).reshape(-1, 3).T
    return TemporalAdjacency(Interactions.in_time_order(source, destination, time), node_count=6)


def past(history: TemporalAdjacency, node: int, time: float) -> list[tuple[int, int, float, int]]:
    """(peer, event, time, side), oldest first, by scanning everything."""
    found = []
    interactions = history.interactions
    for event in range(len(interactions)):
        ends = (int(interactions.source[event]), int(interactions.destination[event]))
        if (then := float(interactions.time[event])) < time:
            found.extend((ends[1 - side], event, then, side) for side in (0, 1) if ends[side] == node)
    return found


@settings(max_examples=150, deadline=None)
@given(events=EVENTS, queries=QUERIES, k=st.integers(0, 5))
def test_recent_equals_a_scan(events: list[tuple[int, int, int]], queries: list[tuple[int, float]], k: int) -> None:
    history = history_of(events)
    nodes, times = np.array([q[0] for q in queries], np.int64), np.array([q[1] for q in queries], np.float64)
    found = history.recent(nodes, times, k)
    assert found.mask.shape == (len(queries), k)
    for row, (node, time) in enumerate(queries):
        expected = past(history, node, time)[-k:] if k else []
        missing = k - len(expected)
        assert found.mask[row].tolist() == [False] * missing + [True] * len(expected)
        got = zip(found.node[row], found.event[row], found.time[row], found.side[row], strict=True)
        assert list(got) == [(0, 0, 0.0, 0)] * missing + expected


@settings(max_examples=100, deadline=None)
@given(events=EVENTS, queries=QUERIES)
def test_looked_back_equals_a_scan(events: list[tuple[int, int, int]], queries: list[tuple[int, float]]) -> None:
    history = history_of(events)
    nodes, times = np.array([q[0] for q in queries], np.int64), np.array([q[1] for q in queries], np.float64)
    degree, last, fifth_last = history.looked_back(nodes, times)
    for row, (node, time) in enumerate(queries):
        rows = past(history, node, time)
        assert degree[row] == len(rows)
        np.testing.assert_equal(last[row], rows[-1][2] if rows else math.nan)
        np.testing.assert_equal(fifth_last[row], rows[-5][2] if len(rows) >= 5 else math.nan)


@settings(max_examples=50, deadline=None)
@given(events=EVENTS.filter(len))
def test_half_edge_activity_is_that_of_each_end_just_before(events: list[tuple[int, int, int]]) -> None:
    history = history_of(events)
    interactions = history.interactions
    for event in range(len(interactions)):
        for side, node in enumerate((interactions.source[event], interactions.destination[event])):
            at = interactions.time[event : event + 1]
            expected = activity(at, *history.looked_back(np.array([node]), at))
            np.testing.assert_array_equal(history.half_edge_activity[2 * event + side], expected[0])


def test_times_are_compared_in_float64() -> None:
    """At Unix times a float32 cannot tell two minutes apart."""
    now = 1_600_000_000.125
    history = TemporalAdjacency(Interactions.in_time_order([0, 0], [1, 2], [now, np.nextafter(now, np.inf)]))
    assert history.recent(np.array([0]), np.array([now]), 2).mask.sum() == 0
    assert history.recent(np.array([0]), np.array([np.nextafter(now, np.inf)]), 2).node.tolist() == [[0, 1]]


def test_node_count_below_the_nodes_is_refused() -> None:
    with pytest.raises(DataError, match="there is a node 7"):
        TemporalAdjacency(Interactions.in_time_order([0], [7], [1.0]), node_count=7)
