"""Results become records: for users under stable ids and headers, for peers in packets of their owners."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import orjson
import pytest

from stream_tgat.engine import AttendedRow, Computed, FinalEmbeddings, PeerEmbeddings, ThresholdCrossing
from stream_tgat.message_passing import outputs
from stream_tgat.message_passing.outputs import Delivery, OutputEncoder
from stream_tgat.topology import Topology
from stream_tgat.wire.origins import pack_origins
from stream_tgat.wire.packets import PacketLayout, decode_packet

TOPOLOGY = Topology.model_validate({"name": "test", "kafka": {"topic_prefix": "t-"}, "heads": [{"name": "ban"}]})
LAYOUT = PacketLayout(TOPOLOGY.id_bytes, 0, 0, (0, 3))
PARTITIONS = {"t-propagation": 4, "t-embeddings": 3, "t-alerts": 2}


def _embeddings(*interactions: bytes) -> FinalEmbeddings:
    count = len(interactions)
    side = np.arange(count, dtype=np.uint8) % 2
    return FinalEmbeddings(
        partition=np.zeros(count, np.int32),
        node=np.array([b"uann", b"itea"] * count, "S16")[:count],
        peer=np.array([b"itea", b"uann"] * count, "S16")[:count],
        interaction=np.array(interactions, "S40"),
        side=side,
        time=np.arange(count) + 5.5,
        late=np.arange(count) == 1,
        embedding=np.arange(3 * count, dtype=np.float32).reshape(count, 3),
        predictions=np.where(side[:, None] == 0, np.float32(0.25), np.float32(np.nan)),
        version=np.full(count, 7),
        origin=pack_origins(2, 99 + np.arange(count)),
    )


def _peer_embeddings(count: int) -> PeerEmbeddings:
    return PeerEmbeddings(
        node=np.array([b"u%d" % n for n in range(count)], "S16"),
        peer=np.array([b"i%d" % n for n in range(count)], "S16"),
        interaction=np.array([b"x%d" % n for n in range(count)], "S16"),
        side=np.arange(count).astype(np.uint8) % 2,
        time=np.arange(count) * 1.5,
        version=np.full(count, 7),
        vectors=np.arange(3 * count, dtype=np.float32).reshape(count, 3),
        layer=1,
    )


def _encode(computed: Computed) -> list[Delivery]:
    return OutputEncoder(TOPOLOGY, LAYOUT, PARTITIONS).encode(computed)


def _by_id(deliveries: list[Delivery]) -> dict[str, tuple[int, Any, dict[str, bytes], dict[str, Any]]]:
    found = {}
    for delivery in deliveries:
        for record in delivery.records:
            content = orjson.loads(record.value or b"")
            found[content["id"]] = (delivery.partition, record.key, dict(record.headers), content)
    return found


def test_embedding_is_keyed_and_placed_by_its_node_and_names_its_origin() -> None:
    found = _by_id(_encode(Computed([], _embeddings(b"x", b"x"))))
    partition, key, headers, content = found["x/5.5/ann/tea/0/7"]
    assert (partition, key) == (zlib.crc32(b"user/ann") % 3, b"user/ann")
    assert content["embedding"] == [0.0, 1.0, 2.0]
    assert (content["node"], content["kind"], content["timestamp"]) == ("ann", "user", 5.5)
    assert content["predictions"] == {"ban": 0.25}
    assert headers == {
        "content-type": b"application/json",
        "schema-version": b"2",
        "model": b"7",
        "source-topic": b"t-interactions",
        "source-partition": b"2",
        "source-offset": b"99",
    }
    partition, key, headers, content = found["x/6.5/ann/tea/1/7"]
    assert (headers["source-partition"], headers["source-offset"]) == (b"2", b"100")
    assert (partition, key) == (zlib.crc32(b"item/tea") % 3, b"item/tea")
    assert (content["predictions"], content["late"]) == ({}, True)


@pytest.mark.parametrize(
    ("output_key", "bipartite", "keys"),
    [
        ("kind/id", True, {b"user/a/b", b"item/a/b"}),
        ("kind/id", False, {b"node/a/b"}),
        ("id", True, {b"a/b"}),
        ("id", False, {b"a/b"}),
    ],
)
def test_keys_tell_a_user_from_an_item_of_its_name_but_in_the_old_form(
    output_key: str, bipartite: bool, keys: set[bytes]
) -> None:
    given = TOPOLOGY.model_dump() | {"graph": {"bipartite": bipartite}}
    topology = Topology.model_validate(given | {"kafka": given["kafka"] | {"output_key": output_key}})
    embeddings = _embeddings(b"x", b"x")
    ends = np.array([topology.node_key("user", "a/b"), topology.node_key("item", "a/b")])
    itself = dataclasses.replace(embeddings, node=ends, peer=ends[::-1], time=np.full(2, 5.5))
    alert = ThresholdCrossing(ends[0], ends[1], b"x", "ban", 0.9, 0.5, 5.5, (), 0, 7, 3 << 44 | 1)
    sent = OutputEncoder(topology, LAYOUT, PARTITIONS).encode(Computed([], itself, [alert]))
    found = [(each.topic, each.partition, record) for each in sent for record in each.records]
    assert {record.key for _, _, record in found} == keys
    for topic, partition, record in found:
        assert partition == zlib.crc32(record.key or b"") % PARTITIONS[topic]
        assert dict(record.headers)["schema-version"] == (b"1" if output_key == "id" else b"2")
    # However they are keyed, no two outputs share an id.
    assert len({orjson.loads(record.value or b"")["id"] for _, _, record in found}) == 3


def test_order_of_a_node_is_kept() -> None:
    embeddings = _embeddings(*(b"x%02d" % n for n in range(40)))
    for delivery in _encode(Computed([], embeddings)):
        times = [orjson.loads(record.value or b"")["timestamp"] for record in delivery.records]
        assert times == sorted(times)


def test_alert_tells_why_and_names_its_origin() -> None:
    because = (AttendedRow(b"itea", b"old", 1.0, 0.75),)
    alert = ThresholdCrossing(b"uann", b"itea", b"x", "ban", 0.9, 0.5, 5.5, because, 0, 7, 3 << 44 | 1)
    found = _by_id(_encode(Computed([], _embeddings(), [alert])))
    partition, key, headers, content = found["x/5.5/ann/tea/ban/7"]
    assert (partition, key) == (zlib.crc32(b"user/ann") % 2, b"user/ann")
    assert (headers["source-topic"], headers["source-partition"], headers["source-offset"]) == (
        b"t-interactions",
        b"3",
        b"1",
    )
    assert content["because"] == [{"interaction": "old", "peer": "tea", "time": 1.0, "weight": 0.75}]


def test_messages_go_to_the_owners_of_the_peers() -> None:
    peer_embeddings = _peer_embeddings(50)
    got = {}
    for delivery in _encode(Computed([peer_embeddings], _embeddings())):
        assert delivery.topic == "t-propagation"
        for record in delivery.records:
            for section in decode_packet(LAYOUT, record.value or b"").peer_embeddings:
                assert section.layer == 1
                for entry in section.entries:
                    got[bytes(entry["node"])] = entry
                    assert zlib.crc32(bytes(entry["node"])) % 4 == delivery.partition
    assert len(got) == 50
    assert got[b"u7"]["peer"] == b"i7"
    assert (got[b"u7"]["interaction"], got[b"u7"]["side"], got[b"u7"]["time"]) == (b"x7", 1, 10.5)
    assert got[b"u7"]["vector"].tolist() == [21.0, 22.0, 23.0]


def test_messages_that_do_not_fit_into_one_packet_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_PACKET_BYTES", 1000)
    deliveries = _encode(Computed([_peer_embeddings(60), _peer_embeddings(30)], _embeddings()))
    packets = [record.value or b"" for delivery in deliveries for record in delivery.records]
    assert max(map(len, packets)) < 1200
    assert sum(len(s.entries) for packet in packets for s in decode_packet(LAYOUT, packet).peer_embeddings) == 90


def test_one_message_larger_than_a_packet_is_sent_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_PACKET_BYTES", 10)
    packets = [
        r.value or b"" for delivery in _encode(Computed([_peer_embeddings(5)], _embeddings())) for r in delivery.records
    ]
    assert [sum(len(s.entries) for s in decode_packet(LAYOUT, packet).peer_embeddings) for packet in packets] == [1] * 5
