"""Look-ups of a pair's past against a scan over all interactions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from stream_tgat.evaluation.link_prediction.meetings import Meetings
from stream_tgat.graph.interactions import Interactions

EVENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 6)), max_size=30)
QUERIES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(-1, 8)), min_size=1, max_size=10)


@settings(max_examples=150, deadline=None)
@given(events=EVENTS, queries=QUERIES, directed=st.booleans())
def test_before_equals_a_scan(events, queries, directed):
    source, destination, time = np.array(events, np.int64).reshape(-1, 3).T
    meetings = Meetings(Interactions.in_time_order(source, destination, time), directed)
    count, last = meetings.before(*(np.array(column) for column in list(zip(*queries, strict=True))))
    for row, (a, b, now) in enumerate(queries):
        pairs = {(a, b)} if directed else {(a, b), (b, a)}
        times = [t for s, d, t in events if (s, d) in pairs and t < now]
        assert count[row] == len(times)
        assert_array_equal(last[row], max(times) if times else np.nan)


def test_shapes_broadcast_as_one_source_with_many_candidates():
    meetings = Meetings(Interactions.in_time_order([0, 0, 1], [2, 3, 2], [1.0, 2.0, 3.0]))
    count, last = meetings.before(np.array([[0], [1]]), np.array([[2, 3], [2, 3]]), np.array([[9.0], [9.0]]))
    assert_array_equal(count, [[1, 1], [1, 0]])
    assert_array_equal(last, [[1, 2], [3, np.nan]])
