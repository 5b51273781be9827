"""Everything that reads bytes which somebody else wrote, with what it may say of bytes that it cannot use.

Each target takes any bytes and returns, or raises one of the errors that its callers expect; anything else is a bug.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgpack
import numpy as np
import orjson

from stream_tgat.errors import FormatError, LostDataError, ReleaseError, TopologyError, WireError
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.message_passing.state_identity import Identity
from stream_tgat.schema_registry import RegisteredValues, SchemaRegistry, SchemaText
from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.registry import CARD_FILE, WEIGHTS_FILE, ReleaseStore
from stream_tgat.wire import DecodedInteraction, InteractionDecoder, LabelDecoder, NodeDecoder
from stream_tgat.wire.formats import MSGPACK
from stream_tgat.wire.outputs import OutputDecoder
from stream_tgat.wire.packets import (
    Block,
    PacketLayout,
    PeerEmbeddingSection,
    Source,
    SourceTopic,
    decode_blocks,
    decode_packet,
    encode_blocks,
    encode_packet,
)

Target = Callable[[bytes], object]

TOPOLOGY = Topology.model_validate(
    {
        "name": "fuzz",
        "graph": {"node_features": 2},
        "features": [
            {"name": "amount", "kind": "number", "log1p": True},
            {"name": "kind", "kind": "category", "values": ["view", "buy"]},
            {"name": "bucket", "kind": "category", "buckets": 4},
            {"name": "flag", "kind": "flag"},
            {"name": "vector", "kind": "vector", "size": 2},
        ],
        "heads": [{"name": "banned"}],
    }
)
LAYOUT = PacketLayout(id_bytes=16, edge_width=3, feature_width=2, peer_embedding_widths=(4, 5))
_NOW = 1.7e9
_MSGPACK = {"content-type": MSGPACK.encode()}
_INTERACTIONS, _NODES, _LABELS = InteractionDecoder(TOPOLOGY), NodeDecoder(TOPOLOGY), LabelDecoder(TOPOLOGY)
_OUTPUTS = OutputDecoder(TOPOLOGY)


def _interaction(headers: dict[str, bytes] | None) -> Target:
    def read(data: bytes) -> object:
        found = _INTERACTIONS.decode(data, headers, "interactions", 0, 0, _NOW)
        if isinstance(found, DecodedInteraction):
            edges, errors = TOPOLOGY.encoder.encode([found.fields])
            assert errors[0] is not None or np.isfinite(edges).all()
            assert 0.0 <= found.timestamp <= _NOW + TOPOLOGY.time.max_ahead_s
        return found

    return read


def _punctuation(data: bytes) -> object:
    return _INTERACTIONS.decode(None, {"watermark": data}, "interactions", 0, 0, _NOW)


def _content_type(data: bytes) -> object:
    return _INTERACTIONS.decode(b"{}", {"content-type": data}, "interactions", 0, 0, _NOW)


class _Registry(SchemaRegistry):
    """One that knows a schema of each kind."""

    def schema(self, schema_id: int) -> SchemaText:
        if schema_id not in _SCHEMAS:
            raise WireError("the schema registry does not know it")
        return _SCHEMAS[schema_id]


_AVRO_SCHEMA = """
{"type": "record", "name": "R", "fields": [
  {"name": "user", "type": ["null", "string"]},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}}
]}
"""
_PROTOBUF_SCHEMA = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "confluent/type/decimal.proto";
message R {
  string user = 1;
  google.protobuf.Timestamp at = 2;
  google.protobuf.Struct more = 3;
  confluent.type.Decimal price = 4;
  repeated R below = 5;
}
"""
_JSON_SCHEMA = '{"type": "object", "properties": {"user": {"type": "string", "format": "date"}}}'
_SCHEMAS = {
    1: SchemaText(1, "AVRO", _AVRO_SCHEMA),
    2: SchemaText(2, "PROTOBUF", _PROTOBUF_SCHEMA),
    3: SchemaText(3, "JSON", _JSON_SCHEMA),
}
_VALUES = RegisteredValues(_Registry("http://nowhere"))
_AVRO = b"\0\0\0\0\1" + bytes([2, 6]) + b"ann" + bytes([2, 25, 2, 2, 2, 97, 2]) + bytes(8) + bytes([0, 0, 2])
_PROTOBUF = b"\0\0\0\0\2\0\x0a\x03ann\x12\x02\x08\x01\x22\x05\x0a\x01\x19\x18\x02"


def _topology_file(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.toml"
        file.write_bytes(data)
        return load_topology(file)


def _release(name: str) -> Target:
    def read(data: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            release = Path(folder) / "some"
            release.mkdir()
            for file, content in _RELEASE.items():
                (release / file).write_bytes(data if file == name else content)
            return ReleaseStore(folder).load("some")

    return read


def _allowing(target: Target, *errors: type[Exception]) -> Target:
    def read(data: bytes) -> object:
        with suppress(*errors):
            return target(data)
        return None

    return read


def _progress() -> bytes:
    progress = PartitionProgress(7, offset=3)
    blocks = [Block(Source(SourceTopic.INTERACTIONS, n), 0, 10 + n, 1.5) for n in range(3)]
    progress.receive(encode_blocks(blocks), 2.5)
    return progress.encode()


def _packet() -> bytes:
    blocks = encode_blocks([Block(Source(SourceTopic.INTERACTIONS, 1), 5, 7, 1.5)])
    half_edges, features = np.zeros(2, LAYOUT.half_edge), np.zeros(1, LAYOUT.feature)
    return encode_packet(
        LAYOUT, blocks, half_edges, features, [PeerEmbeddingSection(1, np.zeros(1, LAYOUT.peer_embedding[1]))], 2.5
    )


def _read_packet(data: bytes) -> object:
    packet = decode_packet(LAYOUT, data)
    return packet, decode_blocks(packet.blocks)


def _small_release() -> dict[str, bytes]:
    from stream_tgat.nn.model import Model
    from stream_tgat.training.card import new_card
    from stream_tgat.training.shape import model_config

    with tempfile.TemporaryDirectory() as folder:
        model = Model(model_config(TOPOLOGY))
        release = ReleaseStore(folder).save(model, new_card(TOPOLOGY, model.config, seed=0))
        return {name: (release.folder / name).read_bytes() for name in (CARD_FILE, WEIGHTS_FILE)}


_RELEASE = _small_release()
_EVENT = {"user": "u1", "item": "i1", "timestamp": 1.6e9, "id": "x", "amount": 2.5, "kind": "buy", "vector": [0.5, 1]}
_EMBEDDING = {"id": "x/0/1", "interaction": "x", "side": 0, "node": "u1", "peer": "i1", "timestamp": 1.6e9}
_EMBEDDING |= {"kind": "user", "model": 1, "predictions": {"banned": 0.5}, "embedding": [0.5, 0.25]}
_ALERT = {"id": "x/banned/1", "interaction": "x", "node": "u1", "peer": "i1", "timestamp": 1.6e9, "head": "banned"}

TARGETS: dict[str, tuple[Target, bytes]] = {
    "interaction, JSON": (_interaction(None), orjson.dumps(_EVENT)),
    "interaction, MessagePack": (_interaction(_MSGPACK), msgpack.packb(_EVENT)),
    "punctuation": (_punctuation, b"1600000000.5"),
    "content type": (_content_type, b"application/json; charset=utf-8"),
    "node": (
        lambda data: _NODES.decode(data, None),
        orjson.dumps({"node": "u1", "kind": "user", "features": [0.5, 1.0]}),
    ),
    "label": (
        lambda data: _LABELS.decode(data, None, _NOW),
        orjson.dumps({"node": "u1", "label": "banned", "value": 1, "timestamp": "2020-01-31T12:00:00Z"}),
    ),
    "packet": (_allowing(_read_packet, WireError), _packet()),
    "progress": (_allowing(PartitionProgress.decode, LostDataError, FormatError), _progress()),
    "identity": (_allowing(Identity.decode, LostDataError), Identity.of(TOPOLOGY, {}).encode()),
    "embedding": (_allowing(lambda data: _OUTPUTS.embedding(data, None), WireError), orjson.dumps(_EMBEDDING)),
    "embedding, MessagePack": (
        _allowing(lambda data: _OUTPUTS.embedding(data, _MSGPACK), WireError),
        msgpack.packb(_EMBEDDING),
    ),
    "registered Avro": (_allowing(_VALUES.record, WireError), _AVRO),
    "registered Protobuf": (_allowing(_VALUES.record, WireError), _PROTOBUF),
    "registered JSON": (_allowing(_VALUES.record, WireError), b'\0\0\0\0\3{"user": "2024-05-01"}'),
    "vector": (_allowing(lambda data: _OUTPUTS.vector(data, None), WireError), orjson.dumps(_EMBEDDING)),
    "alert": (_allowing(lambda data: _OUTPUTS.alert(data, None), WireError), orjson.dumps(_ALERT)),
    "topology": (
        _allowing(_topology_file, TopologyError),
        b'name = "a"\n[graph]\nnode_features = 2\n[time]\nclock = "event"\n[[heads]]\nname = "banned"\n',
    ),
    "model card": (_allowing(_release(CARD_FILE), ReleaseError), _RELEASE[CARD_FILE]),
    "weights": (_allowing(_release(WEIGHTS_FILE), ReleaseError), _RELEASE[WEIGHTS_FILE]),
}
"""By name: what reads, and an example that it takes."""


def mutations(example: bytes, random: np.random.Generator) -> Iterator[bytes]:
    """Endless variants of an example: bits turned, bytes cut, doubled or replaced by what readers stumble over."""
    odd = (b"\x00", b"\xff", b"\xed\xa0\x80", b"NaN", b"1e400", b"-0", b"null", b"{}", b"[]", b'"', b"9" * 30)
    while True:
        data = bytearray(example)
        for _ in range(int(random.integers(1, 5))):
            at = int(random.integers(0, len(data) + 1))
            size = int(random.integers(0, 9))
            match int(random.integers(5)):
                case 0 if at < len(data):
                    data[at] ^= 1 << int(random.integers(8))
                case 1:
                    del data[at : at + size]
                case 2:
                    data[at:at] = data[at : at + size]
                case 3:
                    data[at : at + size] = odd[int(random.integers(len(odd)))]
                case _:
                    del data[at:]
        yield bytes(data)
