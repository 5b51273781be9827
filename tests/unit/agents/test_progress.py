"""The reserved key: what a partition has received, and the refusal of gaps."""

import math

import pytest

from stream_tgat.agents.progress import Progress, SourceProgress
from stream_tgat.errors import LostDataError
from stream_tgat.wire.packets import Source, SourceTopic

A = Source(SourceTopic.INTERACTIONS, 0)
B = Source(SourceTopic.INTERACTIONS, 1)
NODES = Source(SourceTopic.NODES, 0)
UNKNOWN = -math.inf


def test_first_block_of_a_source_defines_where_it_begins() -> None:
    progress = Progress(layout=1)
    assert progress.receive(A, 7, 10, 5.0, 4.0) == (7, UNKNOWN)
    assert progress.sources[A] == SourceProgress(10, 5.0, 4.0)


def test_repeated_block_says_what_to_skip() -> None:
    progress = Progress(layout=1)
    progress.receive(A, 0, 10, 5.0, 4.0)
    assert progress.receive(A, 4, 12, 6.0, 5.0) == (10, 4.0)
    assert progress.sources[A] == SourceProgress(12, 6.0, 5.0)
    assert progress.receive(A, 0, 3, 1.0, 1.0) == (12, 5.0)
    assert progress.sources[A] == SourceProgress(12, 6.0, 5.0)


def test_gap_is_lost_data_and_the_message_names_the_offsets() -> None:
    progress = Progress(layout=1)
    progress.receive(A, 0, 10, 5.0, 5.0)
    with pytest.raises(LostDataError, match=r"interactions/0: offsets 10 to 10 "):
        progress.receive(A, 11, 12, 6.0, 6.0)


def test_watermark_never_falls() -> None:
    progress = Progress(layout=1)
    progress.receive(A, 0, 10, 5.0, 5.0)
    progress.receive(A, 10, 10, UNKNOWN, UNKNOWN)
    assert progress.watermark([A]) == 5.0


def test_watermark_is_the_smallest_and_an_unheard_source_counts_as_minus_infinity() -> None:
    progress = Progress(layout=1)
    progress.receive(A, 0, 10, 5.0, 5.0)
    assert progress.watermark([A, B]) == UNKNOWN
    progress.receive(B, 0, 3, 4.0, 4.0)
    assert progress.watermark([A, B]) == 4.0
    progress.receive(NODES, 0, 0, math.inf, UNKNOWN)
    assert progress.watermark([A, B, NODES]) == 4.0
    # A new partition of a topic counts as soon as it is heard of, before its topic's metadata say that it is there.
    assert progress.watermark([A]) == 4.0


def test_value_survives_the_reserved_key() -> None:
    progress = Progress(layout=0xDEADBEEF, offset=2**40, model=17, epoch=3)
    progress.receive(NODES, 1, 2**41, math.inf, UNKNOWN)
    progress.receive(A, 0, 10, 1_700_000_000.123456, UNKNOWN)
    assert Progress.decode(progress.encode()) == progress
    assert Progress.decode(Progress(layout=1).encode()) == Progress(layout=1)


def test_value_of_another_format_is_refused() -> None:
    value = bytearray(Progress(layout=1).encode())
    value[0] = 99
    with pytest.raises(LostDataError, match="format 99"):
        Progress.decode(bytes(value))
