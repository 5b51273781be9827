"""The reserved key: what a partition has received, and the refusal of gaps."""

import math

import pytest

from stream_tgat.errors import FormatError, LostDataError
from stream_tgat.message_passing.progress import STATE_FORMAT, PartitionProgress, SourceProgress, SourceTable
from stream_tgat.wire.packets import Block, Source, SourceTopic, encode_blocks

A = Source(SourceTopic.INTERACTIONS, 0)
B = Source(SourceTopic.INTERACTIONS, 1)
NODES = Source(SourceTopic.NODES, 0)
UNKNOWN = -math.inf


def _receive(
    progress: PartitionProgress, source: Source, first: int, end: int, watermark: float, is_idle: bool = False
) -> int:
    """The lowest offset of the block that is new."""
    again = progress.receive(encode_blocks([Block(source, first, end, watermark, is_idle)]))
    return again.get(source, first)


def test_first_block_of_a_source_defines_where_it_begins() -> None:
    progress = PartitionProgress(layout=1)
    assert _receive(progress, A, 7, 10, 5.0) == 7
    assert progress.sources.of[A] == SourceProgress(10, 5.0)


def test_repeated_block_says_what_to_skip() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, A, 0, 10, 5.0)
    assert _receive(progress, A, 4, 12, 6.0) == 10
    assert progress.sources.of[A] == SourceProgress(12, 6.0)
    assert _receive(progress, A, 0, 3, 1.0) == 12
    assert progress.sources.of[A] == SourceProgress(12, 6.0)


def test_gap_is_lost_data_and_the_message_names_the_offsets() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, A, 0, 10, 5.0)
    with pytest.raises(LostDataError, match=r"interactions/0: offsets 10 to 10 "):
        _receive(progress, A, 11, 12, 6.0)


def test_watermark_never_falls() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, A, 0, 10, 5.0)
    _receive(progress, A, 10, 10, UNKNOWN)
    assert progress.advance([A]) == 5.0
    # Not for a source that is heard of later either: what is computed is computed.
    _receive(progress, B, 0, 1, 3.0)
    assert progress.advance([A, B]) == 5.0


def test_watermark_is_the_smallest_and_an_unheard_source_counts_as_minus_infinity() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, A, 0, 10, 5.0)
    assert progress.advance([]) == UNKNOWN
    assert progress.advance([A, B]) == UNKNOWN
    _receive(progress, NODES, 0, 0, math.inf)
    _receive(progress, B, 0, 3, 4.0)
    assert progress.advance([A, B, NODES]) == 4.0


def test_new_partition_of_a_topic_counts_as_soon_as_it_is_heard_of() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, A, 0, 10, 5.0)
    _receive(progress, B, 0, 3, 4.0)
    assert progress.advance([A]) == 4.0


def test_idle_source_holds_nothing_back_until_something_comes_again() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, NODES, 0, 0, math.inf)
    _receive(progress, A, 0, 10, 5.0)
    _receive(progress, B, 0, 0, UNKNOWN, is_idle=True)
    assert progress.advance([A, B, NODES]) == 5.0
    _receive(progress, A, 10, 20, 9.0)
    _receive(progress, B, 0, 1, 2.0)
    assert progress.advance([A, B, NODES]) == 5.0, "what B goes on with is awaited again, and nothing is taken back"
    _receive(progress, B, 1, 2, 7.0)
    assert progress.advance([A, B, NODES]) == 7.0


def test_where_all_are_idle_nobody_is_further_than_the_furthest() -> None:
    progress = PartitionProgress(layout=1)
    _receive(progress, NODES, 0, 0, math.inf)
    _receive(progress, A, 0, 10, 5.0, is_idle=True)
    _receive(progress, B, 0, 3, 4.0, is_idle=True)
    assert progress.advance([A, B, NODES]) == 5.0


def test_value_survives_the_reserved_key() -> None:
    progress = PartitionProgress(layout=0xDEADBEEF, offset=2**40, model=17)
    _receive(progress, NODES, 1, 2**41, math.inf)
    _receive(progress, A, 0, 10, 1_700_000_000.123456, is_idle=True)
    progress.advance([A])
    progress.waiting = 12
    progress.newest = 1_700_000_123.5
    assert PartitionProgress.decode(progress.encode()) == progress
    assert PartitionProgress.decode(PartitionProgress(layout=1).encode()) == PartitionProgress(layout=1)


def test_partitions_that_received_the_same_share_one_table_however_they_came_to_it() -> None:
    """What the blocks of a cycle mean is worked out once, however many partitions read them."""
    whole, late = PartitionProgress(layout=1), PartitionProgress(layout=1)
    _receive(late, B, 0, 4, 3.0)
    for progress in (whole, late):
        progress.receive(encode_blocks([Block(A, 0, 10, 5.0), Block(B, 0, 4, 3.0)]))
    assert whole.sources == late.sources
    for progress in (whole, late):
        _receive(progress, A, 10, 12, 6.0)
    assert whole.sources is late.sources
    assert whole.sources is not PartitionProgress.decode(whole.encode()).sources
    assert SourceTable(whole.sources.encoded) == whole.sources


def test_newest_event_is_remembered_whoever_owns_it() -> None:
    progress = PartitionProgress(layout=1)
    for newest in (7.0, UNKNOWN, 5.0):
        progress.receive(b"", newest)
    assert PartitionProgress.decode(progress.encode()).newest == 7.0


@pytest.mark.parametrize(("form", "who"), [(STATE_FORMAT - 1, "an older"), (STATE_FORMAT + 1, "a newer")])
def test_state_of_another_version_is_refused_with_what_to_do(form: int, who: str) -> None:
    value = bytes([form]) + PartitionProgress(layout=1).encode()[1:]
    told = rf"format {form} .* format {STATE_FORMAT}, so {who} version wrote it: run that version, or use another"
    with pytest.raises(FormatError, match=told):
        PartitionProgress.decode(value)
