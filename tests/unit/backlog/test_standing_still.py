"""What `status` says of rows that wait, from what partitions have committed at two times."""

from __future__ import annotations

import math

from stream_tgat.backlog.standing_still import what_stands_still
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.wire.packets import Block, Source, SourceTopic, encode_blocks

A, B, C = (Source(SourceTopic.INTERACTIONS, n) for n in range(3))


def _progress(waiting: int, a: float, b: float, *, b_is_idle: bool = False) -> PartitionProgress:
    progress = PartitionProgress(layout=1)
    progress.receive(encode_blocks([Block(A, 0, 10, a), Block(B, 0, 10, b, b_is_idle)]))
    progress.advance([A, B])
    progress.waiting = waiting
    return progress


def _said(
    before: dict[int, PartitionProgress], now: dict[int, PartitionProgress], *expected: Source, is_served: bool = True
) -> str:
    said = what_stands_still(before, now, expected or (A, B), by_the_clock=False, is_served=is_served)
    return said or ""


def test_partition_that_stands_still_while_rows_wait_names_who_is_behind() -> None:
    before = {0: _progress(1000, 20.0, 10.0), 1: _progress(0, 20.0, 10.0), 2: _progress(200, 20.0, 10.0)}
    now = {0: _progress(1500, 25.0, 10.0), 1: _progress(0, 25.0, 10.0), 2: _progress(234, 25.0, 10.0)}
    assert _said(before, now).startswith("1,734 rows wait for interactions/1 (come to 1970-01-01T00:00:10.000+00:00).")


def test_source_that_was_never_heard_of_is_named() -> None:
    same = {0: _progress(7, 20.0, 10.0)}
    assert _said(same, same, A, B, C).startswith("7 rows wait for interactions/2 (no record so far).")


def test_nothing_is_said_where_time_goes_on_or_nothing_waits() -> None:
    assert not _said({0: _progress(7, 20.0, 10.0)}, {0: _progress(9, 20.0, 11.0)})
    assert not _said({0: _progress(7, 20.0, 10.0)}, {0: _progress(0, 20.0, 10.0)})
    assert not _said({}, {})


def test_idle_source_is_not_named() -> None:
    same = {0: _progress(7, 20.0, -math.inf, b_is_idle=True)}
    assert _said(same, same).startswith("7 rows wait for interactions/0")


def test_where_no_worker_runs_that_is_the_reason() -> None:
    same = {0: _progress(7, 20.0, 10.0)}
    assert _said(same, same, is_served=False) == "7 rows wait, and no worker runs."
