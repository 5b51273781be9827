"""Ingest without Kafka: records in, packets, dead letters and watermarks out."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.errors import TopologyError
from stream_tgat.message_passing.packing import IngestedSource, Packed, Packer
from stream_tgat.message_passing.watermarks import NodesClock, SourceClock
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import (
    MOST_PARTITIONS,
    UNKNOWN,
    Block,
    Packet,
    PacketLayout,
    Source,
    SourceTopic,
    decode_blocks,
    decode_packet,
)
from tests.unit.wire.origins import unpack_origin

PARTITIONS = 4
NOW = 2_000_000_000.0
TOPOLOGY = Topology.model_validate(
    {
        "name": "test",
        "graph": {"node_features": 2},
        "features": [{"kind": "number", "name": "amount"}, {"kind": "vector", "name": "text", "size": 2}],
    }
)
LAYOUT = PacketLayout(TOPOLOGY.id_bytes, TOPOLOGY.edge_width, 2, (2, 8))
A = Source(SourceTopic.INTERACTIONS, 0)
B = Source(SourceTopic.INTERACTIONS, 1)
NODES = Source(SourceTopic.NODES, 0)


@dataclass
class Read:
    topic: str
    partition: int
    offset: int
    value: bytes | None
    headers: Any = None
    key: bytes | None = None
    timestamp: float = NOW


def _interaction(source: Source, offset: int, time: float, user: str = "u", item: str = "i", **more: Any) -> Read:
    fields = {"user": user, "item": item, "timestamp": time, "amount": 1.5, "text": [1, 2], **more}
    return Read("interactions", source.partition, offset, orjson.dumps(fields))


def _node(offset: int, node: str, features: Sequence[float]) -> Read:
    return Read("nodes", 0, offset, orjson.dumps({"node": node, "features": list(features)}))


def _states(lateness: float = 0.0) -> dict[Source, IngestedSource]:
    return {
        A: IngestedSource(SourceClock(lateness), 0),
        B: IngestedSource(SourceClock(lateness), 0),
        NODES: IngestedSource(NodesClock(), 0),
    }


def _packer() -> Packer:
    return Packer(TOPOLOGY, LAYOUT, PARTITIONS, 900_000)


def _packets(packed: Packed) -> list[Packet]:
    return [decode_packet(LAYOUT, packet) for packet in packed.packets if packet is not None]


def _blocks(packed: Packed) -> list[Block]:
    """What every owner is told, the same whatever there is for it."""
    (blocks,) = {packet.blocks for packet in _packets(packed)} or {b""}
    assert len(_packets(packed)) == (PARTITIONS if blocks else 0)
    return [block._replace(written=UNKNOWN) for block in decode_blocks(blocks)]


def test_both_halves_go_to_the_owners_of_their_nodes() -> None:
    packed = _packer().pack({A: [_interaction(A, 0, 5.0, "ann", "tea", id="x")]}, _states(), {}, NOW)
    halves = {
        (bytes(entry["node"]), partition): entry
        for partition, packet in enumerate(_packets(packed))
        for entry in packet.half_edges
    }
    assert set(halves) == {(key, zlib.crc32(key) % PARTITIONS) for key in (b"uann", b"itea")}
    user = halves[b"uann", zlib.crc32(b"uann") % PARTITIONS]
    item = halves[b"itea", zlib.crc32(b"itea") % PARTITIONS]
    assert (user["peer"], user["side"], item["peer"], item["side"]) == (b"itea", 0, b"uann", 1)
    for half in (user, item):
        assert (half["interaction"], half["time"], unpack_origin(half["origin"])) == (b"x", 5.0, (0, 0))
        assert half["edge"].tolist() == [1.5, 1.0, 2.0]
    assert (packed.interactions, packed.refused, packed.ends) == (1, [], {A: 1})


def test_every_partition_hears_of_every_block_even_if_it_is_empty() -> None:
    packed = _packer().pack(
        {A: [_interaction(A, 0, 5.0), _interaction(A, 1, 7.0)], B: [_interaction(B, 0, 6.0)]}, _states(1.0), {}, NOW
    )
    assert _blocks(packed) == [Block(A, 0, 2, 6.0), Block(B, 0, 1, 5.0)]
    assert {packet.newest for packet in _packets(packed)} == {7.0}, "an event that is somebody else's is told of, too"


def test_block_says_when_its_first_and_its_last_record_were_written() -> None:
    records = [replace(_interaction(A, n, 5.0), timestamp=written) for n, written in enumerate((40.0, 41.0, NOW + 9))]
    packed = _packer().pack({A: records}, _states(), {}, NOW)
    (block,) = decode_blocks(_packets(packed)[0].blocks)
    assert block.written == (40.0, NOW), "where producers say so, it may lie in the future"


def test_half_edges_of_one_owner_leave_in_order_of_time_each_with_its_record() -> None:
    b = Source(SourceTopic.INTERACTIONS, 300)
    states = {**_states(), b: IngestedSource(SourceClock(0.0), 8)}
    records = {A: [_interaction(A, 0, 5.0, "u", "i"), _interaction(A, 1, 3.0, "u", "i")]}
    records |= {b: [_interaction(b, 8, 4.0, "u", "i")]}
    packed = Packer(TOPOLOGY, LAYOUT, 1, 900_000).pack(records, states, {}, NOW)
    (packet,) = _packets(packed)
    origins = [unpack_origin(number) for number in packet.half_edges["origin"].tolist()]
    assert origins == [(0, 1), (0, 1), (300, 8), (300, 8), (0, 0), (0, 0)]
    assert packet.half_edges["side"].tolist() == [0, 1] * 3


def test_bad_record_becomes_a_dead_letter_and_neither_a_gap_nor_a_watermark() -> None:
    far = _interaction(A, 1, NOW - 1, amount="much")
    garbage = Read("interactions", 0, 2, b"{", {"content-type": b"application/json"}, b"key")
    packed = _packer().pack({A: [_interaction(A, 0, 5.0), far, garbage]}, _states(), {}, NOW)
    reasons = {letter.offset: letter.reason for letter in packed.refused}
    assert "amount" in reasons[1]
    assert "JSON" in reasons[2]
    (letter,) = [letter for letter in packed.refused if letter.offset == 2]
    assert (letter.topic, letter.partition, letter.key, letter.value) == ("interactions", 0, b"key", b"{")
    assert packed.interactions == 1
    assert _blocks(packed) == [Block(A, 0, 3, 5.0)]
    assert packed.newest == 5.0


def test_verdict_on_a_record_is_the_same_whenever_it_is_read() -> None:
    """After a crash what was read before is read again: a half that was sent must not lack its other half."""
    ahead = _interaction(A, 1, NOW + 400)
    ahead_of_its_reader = replace(_interaction(A, 2, NOW + 200), timestamp=NOW)
    mark = Read("interactions", 0, 3, None, [("watermark", repr(NOW + 400).encode())])
    for read_at in (NOW - 3600, NOW, NOW + 3600):
        batch = {A: [_interaction(A, 0, 5.0), ahead, ahead_of_its_reader, mark]}
        packed = _packer().pack(batch, _states(), {}, read_at)
        assert [letter.offset for letter in packed.refused] == [1, 3]
        times = {time for packet in _packets(packed) for time in packet.half_edges["time"].tolist()}
        assert times == {5.0, NOW + 200}


def test_punctuation_raises_the_watermark_without_an_event() -> None:
    mark = Read("interactions", 0, 0, None, [("watermark", b"77.5")])
    packed = _packer().pack({A: [mark]}, _states(5.0), {}, NOW)
    assert _blocks(packed) == [Block(A, 0, 1, 77.5)]
    assert (packed.newest, [len(packet.half_edges) for packet in _packets(packed)]) == (-math.inf, [0] * PARTITIONS)


def test_caught_up_source_without_records_sends_an_empty_block_once() -> None:
    states = _states(2.0)
    packed = _packer().pack({}, states, {A: 100.0}, NOW)
    assert _blocks(packed) == [Block(A, 0, 0, 98.0)]
    states[A].announced = packed.watermarks[A]
    assert _packer().pack({}, states, {A: 100.0}, NOW).packets == [None] * PARTITIONS


def test_idle_source_says_so_once_and_takes_it_back_with_its_next_record() -> None:
    states = _states()

    def told(batch: dict[Source, list[Read]], idle: set[Source]) -> list[Block]:
        packed = _packer().pack(batch, states, {}, NOW, idle)
        states[A].is_idle = A in idle
        return _blocks(packed)

    assert told({}, {A}) == [Block(A, 0, 0, -math.inf, is_idle=True)]
    assert told({}, {A}) == []
    assert told({A: [_interaction(A, 0, 5.0)]}, set()) == [Block(A, 0, 1, 5.0)]


def test_node_features_go_to_their_owner_and_hold_all_back_until_the_end_of_nodes() -> None:
    states = _states()
    packed = _packer().pack({NODES: [_node(3, "tea", [1, 2]), _node(5, "milk", [3, 4])]}, states, {}, NOW)
    assert _blocks(packed) == [Block(NODES, 0, 6, -math.inf)]
    found = {
        bytes(entry["node"]): (partition, int(entry["origin"]), entry["vector"].tolist())
        for partition, packet in enumerate(_packets(packed))
        for entry in packet.features
    }
    assert found == {
        b"itea": (zlib.crc32(b"itea") % PARTITIONS, 3, [1.0, 2.0]),
        b"imilk": (zlib.crc32(b"imilk") % PARTITIONS, 5, [3.0, 4.0]),
    }
    states[NODES].position = 6
    packed = _packer().pack({}, states, {NODES: NOW}, NOW)
    assert _blocks(packed) == [Block(NODES, 6, 6, math.inf)]


def test_wrong_number_of_node_features_is_a_dead_letter() -> None:
    packed = _packer().pack({NODES: [_node(0, "tea", [1])]}, _states(), {}, NOW)
    assert "features" in packed.refused[0].reason
    assert packed.nodes == 0


def test_cycle_of_one_owner_fits_into_one_packet() -> None:
    packer = Packer(TOPOLOGY, LAYOUT, 1, 100_000)
    count = packer.max_interactions
    packed = packer.pack({A: [_interaction(A, n, 1.0 + n) for n in range(count)]}, _states(), {}, NOW)
    assert packed.packets[0] is not None
    assert 80_000 < len(packed.packets[0]) <= 100_000


@pytest.mark.parametrize("lateness", [0.0, 4.0])
@settings(max_examples=30, deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.booleans()), min_size=1, max_size=25),
    cuts=st.sets(st.integers(1, 24), max_size=4),
)
def test_any_split_into_cycles_says_the_same(
    lateness: float, events: list[tuple[int, int, bool]], cuts: set[int]
) -> None:
    offsets = [0, 0]
    records: list[tuple[Source, Read]] = []
    for source, time, bad in events:
        value = _interaction((A, B)[source], offsets[source], float(time), f"u{time}", f"i{time % 3}")
        records.append(((A, B)[source], Read(**{**value.__dict__, "value": b"?"}) if bad else value))
        offsets[source] += 1

    def told(edges: list[int]) -> tuple[list[Any], dict[Source, float]]:
        states = _states(lateness)
        packer = _packer()
        seen = []
        for start, end in pairwise(edges):
            batch: dict[Source, list[Read]] = {}
            for source, record in records[start:end]:
                batch.setdefault(source, []).append(record)
            packed = packer.pack(batch, states, {}, NOW)
            for block in _blocks(packed):
                assert block.first == states[block.source].position
            for partition, packet in enumerate(_packets(packed)):
                seen += [(partition, entry.tobytes()) for entry in packet.half_edges]
            for source, position in packed.ends.items():
                states[source].position = position
        return sorted(seen), {source: states[source].clock.watermark for source in (A, B)}

    whole = told([0, len(records)])
    assert told([0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]) == whole
    assert len(whole[0]) == 2 * sum(not bad for _, _, bad in events)
    assert np.isfinite([w for w in whole[1].values() if w > -math.inf]).all()


BASKETS = Topology.model_validate(
    {
        "name": "test",
        "graph": {"max_id_bytes": 48},
        "features": [{"kind": "number", "name": "price"}],
        "input": {
            "interactions": {
                "topics": ["orders", "returns"], "each": "lines", "user": "who", "item": "$each.sku", "timestamp": "at",
                "where": "kind == 'order'", "most": 20, "fields": {"price": "$each.price"},
            }
        },
    }
)  # fmt: skip
BASKET_LAYOUT = PacketLayout(BASKETS.id_bytes, BASKETS.edge_width, 0, (0, 8))
ORDERS, RETURNS = A, Source(SourceTopic.INTERACTIONS, MOST_PARTITIONS)


def _basket(source: Source, offset: int, lines: int, price: Any = 1, kind: str = "order") -> Read:
    fields = {
        "kind": kind,
        "who": "ann",
        "at": 5.0 + offset,
        "lines": [{"sku": f"s{n}", "price": 1} for n in range(lines)],
    }
    if lines:
        fields["lines"][-1]["price"] = price  # type: ignore[index]
    topic = BASKETS.input_topics("interactions")[source.number]
    return Read(topic, source.partition_of_topic, offset, orjson.dumps(fields))


def _packed(
    batch: dict[Source, list[Read]], most: int = 900_000, caught_up: bool = False
) -> tuple[Packed, list[Packet]]:
    states = {source: IngestedSource(SourceClock(0.0), records[0].offset) for source, records in batch.items()}
    packer = Packer(BASKETS, BASKET_LAYOUT, 2, most)
    packed = packer.pack(batch, states, dict.fromkeys(batch, NOW) if caught_up else {}, NOW)
    return packed, [decode_packet(BASKET_LAYOUT, each) if each else Packet() for each in packed.packets]


def test_record_of_several_interactions_is_in_the_block_of_its_one_offset() -> None:
    packed, packets = _packed({ORDERS: [_basket(ORDERS, 7, 3)], RETURNS: [_basket(RETURNS, 2, 1)]})
    entries = {(e["interaction"], unpack_origin(e["origin"])) for packet in packets for e in packet.half_edges}
    assert entries == {
        (b"returns/0/000000000002/0", (MOST_PARTITIONS, 2)),
        *((f"orders/0/000000000007/{n}".encode(), (0, 7)) for n in range(3)),
    }
    assert (packed.interactions, packed.ends) == (4, {ORDERS: 8, RETURNS: 3})


def test_record_with_one_wrong_line_is_refused_once_and_whole() -> None:
    packed, _ = _packed({ORDERS: [_basket(ORDERS, 7, 3, price="free"), _basket(ORDERS, 8, 1)]})
    (refused,) = packed.refused
    assert refused.reason == "field 'price' ($each.price) must be a number, not 'free'"
    assert (refused.offset, packed.interactions, packed.ends) == (7, 1, {ORDERS: 9})
    assert packed.watermarks == {ORDERS: 13.0}


def test_records_that_are_not_wanted_are_counted_and_passed() -> None:
    packed, _ = _packed({ORDERS: [_basket(ORDERS, 7, 3, kind="refund"), _basket(ORDERS, 8, 0)]})
    assert (packed.passed_over, packed.interactions, packed.refused, packed.ends) == (1, 0, [], {ORDERS: 9})


def test_records_beyond_the_room_of_a_packet_are_left_with_their_end() -> None:
    room = Packer(BASKETS, BASKET_LAYOUT, 2, 30_000).max_interactions
    assert 20 <= room < 90
    # The first of the batch is furthest behind, whatever its place among the sources.
    batch = {RETURNS: [_basket(RETURNS, n, 20) for n in range(9)], ORDERS: [_basket(ORDERS, 0, 20)]}
    packed, _ = _packed(batch, 30_000, caught_up=True)
    taken = room // 20
    assert packed.interactions == 20 * taken
    assert packed.ends == {RETURNS: taken}
    assert {source: [each.offset for each in left] for source, left in packed.left.items()} == {
        RETURNS: list(range(taken, 9)), ORDERS: [0],
    }  # fmt: skip
    assert packed.watermarks[RETURNS] == 5.0 + taken - 1


def test_more_interactions_of_one_record_than_a_packet_holds_are_refused_at_the_start() -> None:
    with pytest.raises(TopologyError, match=r"input.interactions.most: 20 .* set most to that"):
        Packer(BASKETS, BASKET_LAYOUT, 2, 20_000)
