"""Who holds rows back is named, by name and with the way on, and not over and over."""

from __future__ import annotations

import math

from stream_tgat.backlog.holding import Holding
from stream_tgat.wire.packets import Source, SourceTopic

A, B, C, D = (Source(SourceTopic.INTERACTIONS, n) for n in range(4))
NODES = Source(SourceTopic.NODES, 0)
NEVER = -math.inf


def _after(seconds: float, holding: Holding, watermarks: dict[Source, float], waiting: int = 1200) -> list[str]:
    """The lines of so many seconds, a look in each, from 0 on."""
    lines = [holding.look(float(now), waiting, watermarks) for now in range(int(seconds) + 1)]
    return [line for line in lines if line is not None]


def test_source_that_rows_wait_for_is_named_after_a_while_with_the_ways_on() -> None:
    holding = Holding(by_the_clock=False)
    assert _after(4, holding, {A: 20.0, B: 10.0, NODES: math.inf}) == []
    (line,) = [holding.look(5.0, 1200, {A: 25.0, B: 10.0, NODES: math.inf})]
    assert line is not None
    assert line.startswith("1,200 rows have waited 5 s for interactions/1 (come to 1970-01-01T00:00:10.000+00:00).")
    assert "punctuation" in line
    assert "time.idle_after_s" in line
    assert holding.seconds(7.0) == {B: 7}


def test_sources_without_a_record_are_named_few_and_the_rest_counted() -> None:
    (line,) = _after(5, Holding(by_the_clock=False), dict.fromkeys((D, B, C, A), NEVER))
    assert "interactions/0, interactions/1, interactions/2 and 1 more (no record so far)" in line


def test_node_features_that_are_not_read_come_before_all_else() -> None:
    (line,) = _after(5, Holding(by_the_clock=True), {A: NEVER, NODES: NEVER})
    assert line == "1,200 rows have waited 5 s for nodes/0 (not read to the end yet)."


def test_once_the_nodes_are_read_the_sources_that_still_hold_are_named() -> None:
    holding = Holding(by_the_clock=False)
    assert len(_after(5, holding, {A: NEVER, NODES: NEVER})) == 1
    line = holding.look(6.0, 1200, {A: NEVER, NODES: math.inf})
    assert line is not None
    assert "6 s for interactions/0 (no record so far)" in line


def test_by_the_clock_the_fetches_are_asked_after() -> None:
    (line,) = _after(5, Holding(by_the_clock=True), {A: 10.0, B: 20.0})
    assert "interactions/0" in line
    assert "No fetch has seen its end since" in line
    assert "punctuation" not in line


def test_nothing_is_said_while_no_row_waits_or_time_goes_on_or_everybody_is_idle() -> None:
    assert _after(60, Holding(by_the_clock=False), {A: 20.0, B: 10.0}, waiting=0) == []
    assert _after(60, Holding(by_the_clock=False), {A: math.inf, B: math.inf}) == []
    holding = Holding(by_the_clock=False)
    assert [holding.look(now, 1200, {A: 20.0 + now, B: 10.0 + now}) for now in range(60)] == [None] * 60


def test_same_source_is_named_again_only_after_long_and_another_at_once() -> None:
    holding = Holding(by_the_clock=False)
    assert len(_after(300, holding, {A: 20.0, B: 10.0})) == 1
    # B goes on, and A has to wait for.
    lines = [holding.look(float(now), 5, {A: 20.0, B: 30.0}) for now in range(300, 320)]
    assert [line is not None for line in lines].index(True) == 5
    assert sum(line is not None for line in lines) == 1
    assert holding.look(604.0, 5, {A: 20.0, B: 30.0}) is None
    assert holding.look(1000.0, 5, {A: 20.0, B: 30.0}) is not None


def test_seconds_count_from_when_the_watermark_last_moved() -> None:
    holding = Holding(by_the_clock=False)
    _after(100, holding, {A: 20.0, B: 10.0})
    holding.look(101.0, 1200, {A: 20.0, B: 11.0})
    assert holding.seconds(104.0) == {}
    assert holding.seconds(107.0) == {B: 6}
