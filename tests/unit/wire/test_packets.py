"""Records of `propagation`: whatever goes in comes out, and foreign bytes are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.errors import WireError
from stream_tgat.wire.origins import pack_origins, source_offsets, source_partitions
from stream_tgat.wire.packets import (
    MOST_PARTITIONS,
    PACKET_FORMAT,
    Block,
    Entries,
    PacketLayout,
    PeerEmbeddingSection,
    Source,
    SourceTopic,
    decode_blocks,
    decode_packet,
    encode_blocks,
    encode_packet,
)
from tests.unit.wire.origins import unpack_origin

LAYOUT = PacketLayout(id_bytes=16, edge_width=3, feature_width=2, peer_embedding_widths=(4, 5))


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
    blocks=st.lists(
        st.builds(
            Block,
            st.builds(Source, st.sampled_from(SourceTopic), st.integers(0, 99)),
            st.integers(0, 2**47),
            st.integers(0, 2**47),
            st.floats(allow_nan=False),
            st.booleans(),
            st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
        ),
        max_size=4,
    ),
    half_edges=st.integers(0, 4),
    features=st.integers(0, 4),
    peer_embeddings=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), max_size=3),
    newest=st.floats(allow_nan=False),
    seed=st.integers(0, 2**31),
)
def test_packet_survives_the_wire(
    blocks: list[Block],
    half_edges: int,
    features: int,
    peer_embeddings: list[tuple[int, int]],
    newest: float,
    seed: int,
) -> None:
    edges, of_nodes = _random(LAYOUT.half_edge, half_edges, seed), _random(LAYOUT.feature, features, seed)
    sections = [
        PeerEmbeddingSection(layer, _random(LAYOUT.peer_embedding[layer], n, seed)) for layer, n in peer_embeddings
    ]

    packet = decode_packet(LAYOUT, encode_packet(LAYOUT, encode_blocks(blocks), edges, of_nodes, sections, newest))

    assert (decode_blocks(packet.blocks), packet.newest) == (blocks, newest)
    for sent, got in ((edges, packet.half_edges), (of_nodes, packet.features)):
        assert (got.tobytes(), got.dtype) == (sent.tobytes(), sent.dtype)
    assert [(m.layer, m.entries.tobytes()) for m in packet.peer_embeddings] == [
        (m.layer, m.entries.tobytes()) for m in sections
    ]


def test_layout_without_edges_features_or_layer_zero_survives_the_wire() -> None:
    layout = PacketLayout(id_bytes=8, edge_width=0, feature_width=0, peer_embedding_widths=(0, 2))
    entries = np.zeros(2, layout.half_edge)
    entries["node"] = [b"ua", b"ib"]
    packet = decode_packet(layout, encode_packet(layout, half_edges=entries))
    assert packet.half_edges["node"].tolist() == [b"ua", b"ib"]


@given(st.lists(st.tuples(st.integers(0, 2**19 - 1), st.integers(0, 2**44 - 1)), max_size=5))
def test_origin_is_one_number_and_comes_apart_again(origins: list[tuple[int, int]]) -> None:
    partitions, offsets = np.array(origins, np.int64).reshape(-1, 2).T
    numbers = pack_origins(partitions, offsets)
    assert list(map(unpack_origin, numbers.tolist())) == origins
    assert source_partitions(numbers).tolist() == partitions.tolist()
    assert source_offsets(numbers).tolist() == offsets.tolist()


def test_block_of_an_unknown_topic_is_refused() -> None:
    with pytest.raises(WireError, match="damaged"):
        decode_blocks(b"\x07" + encode_blocks([Block(Source(SourceTopic.NODES, 0), 0, 1, 0.0)])[1:])


def test_record_that_ends_among_its_blocks_is_refused() -> None:
    record = encode_packet(LAYOUT, encode_blocks([Block(Source(SourceTopic.NODES, 0), 0, 1, 0.0)]))
    with pytest.raises(WireError, match="cut off"):
        decode_packet(LAYOUT, record[:-1])


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


@pytest.mark.parametrize("record", [b"", b"TGP", b"{}" * 20])
def test_foreign_bytes_are_refused(record: bytes) -> None:
    with pytest.raises(WireError, match="not a record"):
        decode_packet(LAYOUT, record)


@pytest.mark.parametrize("form", [PACKET_FORMAT - 1, PACKET_FORMAT + 1])
def test_packet_of_another_version_is_refused_with_what_to_do(form: int) -> None:
    record = b"TGP%d" % form + encode_packet(LAYOUT)[4:]
    with pytest.raises(WireError, match=f"format {form}, .* reads format {PACKET_FORMAT}: .*run only one of them"):
        decode_packet(LAYOUT, record)


def test_record_with_a_tail_is_refused() -> None:
    with pytest.raises(WireError, match="1 bytes too many"):
        decode_packet(LAYOUT, encode_packet(LAYOUT) + b"x")


def test_partitions_of_a_second_topic_have_numbers_and_names_of_their_own() -> None:
    sources = [Source(SourceTopic.INTERACTIONS, number * MOST_PARTITIONS + 3) for number in range(3)]
    assert [(each.number, each.partition_of_topic) for each in sources] == [(0, 3), (1, 3), (2, 3)]
    assert list(map(str, sources)) == ["interactions/3", "interactions.2/3", "interactions.3/3"]


def test_origin_has_room_for_the_last_partition_of_the_last_topic() -> None:
    partition = 31 * MOST_PARTITIONS + 9_999
    (number,) = pack_origins(partition, np.array([2**44 - 1])).tolist()
    assert number >= 0
    assert unpack_origin(number) == (partition, 2**44 - 1)
