"""Watermarks of a source: largest time minus lateness, punctuation, and the clock, at the end and as a bound."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.message_passing.watermarks import NodesClock, SourceClock

NOW = 1000.0


def _read(clock: SourceClock, *times: float, punctuation: tuple[int, ...] = (), written: float = NOW) -> float:
    for n, time in enumerate(times):
        if n in punctuation:
            clock.punctuate(time)
        else:
            clock.read(time, written)
    return clock.watermark


def test_watermark_is_the_largest_time_less_the_lateness() -> None:
    clock = SourceClock(allowed_lateness_s=10)
    assert clock.watermark == -math.inf
    assert _read(clock, 100, 300, 200) == 290
    assert _read(clock, 150) == 290


def test_punctuation_raises_the_watermark_to_its_time_whatever_the_lateness() -> None:
    clock = SourceClock(allowed_lateness_s=50)
    assert _read(clock, 100, 400, 399, punctuation=(1,)) == 400


def test_punctuation_below_the_watermark_lowers_nothing() -> None:
    assert _read(SourceClock(allowed_lateness_s=0), 100, 50, punctuation=(1,)) == 100


def test_clock_at_the_end_raises_the_watermark() -> None:
    clock = SourceClock(allowed_lateness_s=2)
    _read(clock, 100)
    clock.caught_up(1000)
    assert clock.watermark == 998
    clock.caught_up(900)
    assert clock.watermark == 998


def test_negative_lateness_runs_ahead() -> None:
    assert _read(SourceClock(allowed_lateness_s=-5), 100, 101, 103) == 108


def test_event_of_a_clock_that_is_ahead_moves_live_time_to_when_it_was_written_and_no_further() -> None:
    clock = SourceClock(allowed_lateness_s=2, is_live=True)
    assert _read(clock, NOW + 299, written=NOW) == NOW - 2
    assert _read(clock, NOW - 1, written=NOW + 0.5) == NOW - 2
    # What a producer promises by punctuation is its own word.
    assert _read(clock, NOW + 50, punctuation=(0,), written=NOW + 1) == NOW + 50
    # A replay's time is its events'.
    assert _read(SourceClock(allowed_lateness_s=2), NOW + 299, written=NOW) == NOW + 297


@pytest.mark.parametrize("lateness", [0.0, 3.0, -3.0])
@given(records=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30))
def test_watermark_is_the_largest_that_any_record_says(lateness: float, records: list[tuple[int, bool]]) -> None:
    marks = tuple(k for k, (_, mark) in enumerate(records) if mark)
    said = [time if mark else time - lateness for time, mark in records]
    assert _read(SourceClock(lateness), *[time for time, _ in records], punctuation=marks) == max(said)


def test_nodes_hold_everything_back_until_their_end() -> None:
    clock = NodesClock()
    assert clock.watermark == -math.inf
    clock.caught_up()
    assert clock.watermark == math.inf
