"""When ingest waits: for the window, and for the source that pending rows wait for."""

from __future__ import annotations

import math

from stream_tgat.agents.throttle import Throttle
from stream_tgat.topology import Serving
from stream_tgat.wire.packets import Source, SourceTopic

A, B, C = (Source(SourceTopic.INTERACTIONS, n) for n in range(3))
NODES = Source(SourceTopic.NODES, 0)


def test_window_counts_the_fullest_partition() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert not throttle.window_is_full
    for offset, size in ((5, 6), (8, 4)):
        throttle.sent(0, offset, size)
    throttle.sent(1, 40, 9)
    assert throttle.backlog() == 10
    assert not throttle.window_is_full
    throttle.sent(0, 9, 1)
    assert throttle.window_is_full
    throttle.read(0, 5)
    assert throttle.backlog() == 11
    throttle.read(0, 6)
    assert throttle.backlog() == 9
    throttle.read(0, 100)
    throttle.read(1, 41)
    assert throttle.backlog() == 0


def test_what_is_known_late_of_many_small_records_does_not_fill_the_window() -> None:
    """Four workers and 32 partitions: each sends 30 records a second to each, and hears after two seconds."""
    throttle = Throttle(Serving().window_bytes, max_pending=5)
    for offset in range(4 * 30 * 10):
        throttle.sent(0, offset, 300)
        if offset >= 4 * 30 * 2:
            throttle.read(0, offset - 4 * 30 * 2)
        assert not throttle.window_is_full


def test_all_sources_go_on_while_few_rows_wait() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert throttle.free([A, B], {A: 1.0, B: 2.0}, [A, B, C], pending=5) == {A, B}


def test_only_the_source_furthest_behind_goes_on_while_many_rows_wait() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert throttle.free([A, B], {A: 1.0, B: 2.0, C: 3.0}, [A, B, C], pending=6) == {A}


def test_worker_waits_for_a_source_that_another_worker_reads() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert throttle.free([A, B], {A: 1.0, B: 2.0, C: 0.5}, [A, B, C], pending=6) == set()


def test_source_never_heard_of_is_furthest_behind() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert throttle.free([A, B], {A: 1.0}, [A, B], pending=6) == {B}
    assert throttle.free([A, B], {A: 1.0, B: 2.0}, [A, B, C], pending=6) == set()


def test_node_features_always_pass() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    watermarks = {A: 1.0, B: 2.0, NODES: math.inf}
    assert throttle.free([B, NODES], watermarks, [A, B, NODES], pending=6) == {NODES}


def test_no_source_goes_on_while_what_waits_only_waits_for_its_turn() -> None:
    throttle = Throttle(window_bytes=10, max_pending=5)
    assert throttle.free([A, NODES], {A: 1.0}, [A, NODES], pending=6, is_computing=True) == {NODES}
    assert throttle.free([A, NODES], {A: 1.0}, [A, NODES], pending=5, is_computing=True) == {A, NODES}
