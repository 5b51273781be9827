"""Records of `propagation`: whatever goes in comes out, and foreign bytes are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.errors import WireError
from stream_tgat.wire.packets import (
    Block,
    Entries,
    MemoSection,
    PacketLayout,
    Source,
    SourceTopic,
    decode_packet,
    encode_packet,
)

LAYOUT = PacketLayout(id_bytes=16, edge_width=3, feature_width=2, memo_widths=(4, 5))


def _random(dtype: "np.dtype[np.void]", count: int, seed: int) -> Entries:
    entries = np.zeros(count, dtype)
    generator = np.random.default_rng(seed)
    for name in dtype.names or ():
        column = entries[name]
        if column.dtype.kind == "S":
            entries[name] = [f"u{generator.integers(10**6)}-é".encode()[:16] for _ in range(count)]
        elif column.dtype.kind == "f":
            entries[name] = generator.normal(size=column.shape)
        else:
            entries[name] = generator.integers(0, 2, size=column.shape)
    return entries


@given(
    blocks=st.lists(st.tuples(st.sampled_from(list(SourceTopic)), st.integers(0, 99), st.integers(0, 4)), max_size=4),
    memos=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), max_size=3),
    seed=st.integers(0, 2**31),
)
def test_packet_survives_the_wire(
    blocks: list[tuple[SourceTopic, int, int]], memos: list[tuple[int, int]], seed: int
) -> None:
    sent_blocks = [
        Block(
            Source(topic, partition),
            seed * 2**20,
            seed * 2**20 + n,
            seed + 0.25,
            _random(LAYOUT.entry(topic), n, seed),
            bool(n % 2),
        )
        for topic, partition, n in blocks
    ]
    sent_memos = [MemoSection(layer, _random(LAYOUT.memo[layer], n, seed)) for layer, n in memos]

    packet = decode_packet(LAYOUT, encode_packet(LAYOUT, sent_blocks, sent_memos))

    assert len(packet.blocks) == len(sent_blocks)
    for sent, got in zip(sent_blocks, packet.blocks, strict=True):
        assert (got.source, got.first, got.end, got.watermark, got.is_idle) == (
            sent.source,
            sent.first,
            sent.end,
            sent.watermark,
            sent.is_idle,
        )
        assert got.entries.tobytes() == sent.entries.tobytes()
        assert got.entries.dtype == sent.entries.dtype
    assert [(m.layer, m.entries.tobytes()) for m in packet.memos] == [
        (m.layer, m.entries.tobytes()) for m in sent_memos
    ]


def test_layout_without_edges_features_or_layer_zero_survives_the_wire() -> None:
    layout = PacketLayout(id_bytes=8, edge_width=0, feature_width=0, memo_widths=(0, 2))
    source = Source(SourceTopic.INTERACTIONS, 3)
    entries = np.zeros(2, layout.half_edge)
    entries["node"] = [b"ua", b"ib"]
    packet = decode_packet(layout, encode_packet(layout, [Block(source, 0, 2, 1.0, entries)]))
    assert packet.blocks[0].entries["node"].tolist() == [b"ua", b"ib"]


@pytest.mark.parametrize(
    "other",
    [
        PacketLayout(24, 3, 2, (4, 5)),
        PacketLayout(16, 4, 2, (4, 5)),
        PacketLayout(16, 3, 1, (4, 5)),
        PacketLayout(16, 3, 2, (4, 5, 5)),
        PacketLayout(16, 3, 2, (4, 5), meaning=1),
    ],
)
def test_record_of_other_widths_is_refused(other: PacketLayout) -> None:
    with pytest.raises(WireError, match="another meaning"):
        decode_packet(LAYOUT, encode_packet(other))


@pytest.mark.parametrize("record", [b"", b"TGP1", b"{}" * 20])
def test_foreign_bytes_are_refused(record: bytes) -> None:
    with pytest.raises(WireError, match="not a record"):
        decode_packet(LAYOUT, record)


def test_record_with_a_tail_is_refused() -> None:
    with pytest.raises(WireError, match="1 bytes too many"):
        decode_packet(LAYOUT, encode_packet(LAYOUT) + b"x")
