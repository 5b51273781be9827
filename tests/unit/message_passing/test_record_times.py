"""An embedding finds out when its interaction was written, from the place that it names."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from stream_tgat.message_passing.record_times import Written
from stream_tgat.wire.origins import pack_origins
from stream_tgat.wire.packets import Block, Source, SourceTopic, encode_blocks


def _origins(*places: tuple[int, int]) -> np.ndarray:
    return np.concatenate([pack_origins(partition, np.array([offset], np.int64)) for partition, offset in places])


def test_time_passes_evenly_within_a_block_and_what_no_block_has_is_not_known() -> None:
    written = Written()
    written.note(3, 10, 15, 100.0, 104.0)
    written.note(3, 15, 16, 200.0, 200.0)
    written.note(3, 20, 21, 300.0, 300.0)
    written.note(0, 10, 11, 7.0, 7.0)
    places = [(3, 10), (3, 12), (3, 14), (3, 15), (0, 10), (3, 20)]
    assert_allclose(written.times(_origins(*places)), [100.0, 102.0, 104.0, 200.0, 7.0, 300.0])
    unknown = written.times(_origins((3, 9), (3, 17), (3, 21), (0, 11), (5, 10)))
    assert np.isnan(unknown).all()
    # A row that came from nowhere, as in a replay of the log beside the stream.
    assert np.isnan(written.times(np.array([-1]))).all()
    assert written.times(np.empty(0, np.int64)).shape == (0,)


def test_blocks_of_a_packet_are_taken_once_however_many_partitions_read_them() -> None:
    a, nodes = Source(SourceTopic.INTERACTIONS, 3), Source(SourceTopic.NODES, 3)
    told = [Block(a, 10, 12, 0.0, written=(5.0, 6.0)), Block(nodes, 10, 20, 0.0, written=(8.0, 9.0))]
    written = Written()
    for blocks in (told, told, [Block(a, 12, 12, 7.0)]):
        written.hear(encode_blocks(blocks))
    assert_allclose(written.times(_origins((3, 10), (3, 11))), [5.0, 6.0])
    assert np.isnan(written.times(_origins((3, 12)))).all()


def test_block_that_another_partition_tells_again_changes_nothing() -> None:
    written = Written()
    for _ in range(3):
        written.note(0, 0, 5, 1.0, 1.0)
        written.note(0, 5, 9, 2.0, 2.0)
    assert_allclose(written.times(_origins((0, 4), (0, 8))), [1.0, 2.0])


def test_newest_blocks_are_remembered_and_no_more_than_twice_as_many() -> None:
    written = Written(remembered=4)
    for at in range(23):
        written.note(0, at, at + 1, float(at), float(at))
        known = ~np.isnan(written.times(_origins(*((0, each) for each in range(at + 1)))))
        assert known[-4:].all()
        assert known.sum() <= 8
        assert_allclose(written.times(_origins((0, at))), [float(at)])
