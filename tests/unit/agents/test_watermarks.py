"""Watermarks of a source: largest time minus lateness, punctuation, the clock at the end, and what counts as late."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.agents.watermarks import NodesClock, SourceClock


def _read(clock: SourceClock, *times: float, punctuation: tuple[int, ...] = ()) -> list[bool]:
    marks = np.zeros(len(times), np.bool_)
    marks[list(punctuation)] = True
    return clock.read(np.array(times, np.float64), marks).tolist()


def test_watermark_is_the_largest_time_less_the_lateness() -> None:
    clock = SourceClock(allowed_lateness_s=10)
    assert clock.watermark == -math.inf
    _read(clock, 100, 300, 200)
    assert clock.watermark == 290
    _read(clock, 150)
    assert clock.watermark == 290


def test_event_before_the_promise_is_late_within_a_batch_too() -> None:
    clock = SourceClock(allowed_lateness_s=10)
    assert _read(clock, 100, 90, 89, 120, 109, 110) == [False, False, True, False, True, False]
    assert _read(clock, 109.5, 110) == [True, False]


def test_punctuation_raises_the_watermark_to_its_time_whatever_the_lateness() -> None:
    clock = SourceClock(allowed_lateness_s=50)
    assert _read(clock, 100, 400, 399, punctuation=(1,)) == [False, False, True]
    assert clock.watermark == 400


def test_punctuation_below_the_watermark_is_never_late_and_lowers_nothing() -> None:
    clock = SourceClock(allowed_lateness_s=0)
    assert _read(clock, 100, 50, punctuation=(1,)) == [False, False]
    assert clock.watermark == 100


def test_clock_at_the_end_raises_the_watermark_and_makes_nothing_late() -> None:
    clock = SourceClock(allowed_lateness_s=2)
    _read(clock, 100)
    clock.caught_up(1000)
    assert clock.watermark == 998
    assert _read(clock, 997) == [False]
    clock.caught_up(900)
    assert clock.watermark == 998


def test_negative_lateness_runs_ahead_and_live_events_are_not_late() -> None:
    clock = SourceClock(allowed_lateness_s=-5)
    assert _read(clock, 100, 101, 103) == [False, False, False]
    assert clock.watermark == 108
    assert _read(clock, 104, 103.5) == [False, True]


@pytest.mark.parametrize("lateness", [0.0, 3.0, -3.0])
@given(
    records=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_any_split_into_batches_gives_the_same(
    lateness: float, records: list[tuple[int, bool]], cuts: list[int]
) -> None:
    # The slow oracle: one record after the other, in words of the definition.
    promised = watermark = -math.inf
    late = []
    for time, mark in records:
        late.append(not mark and time < promised)
        promised = max(promised, time if mark else time - max(lateness, 0))
        watermark = max(watermark, time if mark else time - lateness)

    clock = SourceClock(lateness)
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    found: list[bool] = []
    for start, end in pairwise(edges):
        part = records[start:end]
        found += clock.read(np.array([t for t, _ in part], np.float64), np.array([m for _, m in part])).tolist()
    assert found == late
    assert (clock.watermark, clock.promised) == (watermark, promised)


def test_nothing_read_changes_nothing() -> None:
    clock = SourceClock(0)
    assert _read(clock) == []
    assert clock.watermark == -math.inf


def test_nodes_hold_everything_back_until_their_end() -> None:
    clock = NodesClock()
    assert clock.watermark == -math.inf
    clock.caught_up()
    assert clock.watermark == math.inf
