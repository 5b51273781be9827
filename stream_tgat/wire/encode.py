"""What users consume: embeddings and alerts as bytes, and the headers of every record the workers write.

Embeddings leave twice per interaction, so their encoder is made once per deployment and spends a few microseconds on
each.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
import orjson

from stream_tgat.schema_registry import AvroWriter
from stream_tgat.topology import Topology, split_node_key
from stream_tgat.wire.formats import CONTENT_TYPES, HeaderList
from stream_tgat.wire.models import OUTPUT_SCHEMA_VERSIONS
from stream_tgat.wire.output_schemas import AVRO_RECORDS, VECTOR, OutputSchemas, avro_schema

_Write = Callable[[dict[str, Any], npt.NDArray[np.float32] | None], bytes]

_PROBABILITY_DIGITS = 7
_KINDS = {b"u": b"user/", b"i": b"item/", b"n": b"node/"}
_FLOAT32_TAG = 0xCA
_ARRAY16_TAG = b"\xdc"


def interaction_name(interaction: str, timestamp: float, user: str, item: str) -> str:
    """One text for one interaction, from all that it is made of: two that differ in anything have different names.

    That holds since the last three hold no "/": in user and item it becomes %2F, and % becomes %25.
    """
    return f"{interaction}/{float(timestamp)!r}/{_escaped(user)}/{_escaped(item)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F") if "%" in text or "/" in text else text


def kind_and_id(node: bytes) -> bytes:
    """A node as it is named in keys of records, by its key inside: "user/ann"."""
    return _KINDS[node[:1]] + node[1:]


def output_key(topology: Topology, node: bytes) -> bytes:
    """The key of an embedding or alert about a node: "user/ann" (or "ann", see `kafka.output_key`)."""
    return node[1:] if topology.kafka.output_key == "id" else kind_and_id(node)


class EmbeddingEncoder:
    """Writes topic `embeddings` of one deployment. schemas: where outputs are Avro"""

    def __init__(self, topology: Topology, schemas: OutputSchemas | None = None) -> None:
        self._topology = topology
        self._heads = topology.head_names
        self._write = _writing(topology, "embedding", None if schemas is None else schemas.embeddings, VECTOR)

    def encode(
        self,
        *,
        interaction: bytes,
        node: bytes,
        peer: bytes,
        side: int,
        timestamp: float,
        embedding: npt.NDArray[np.float32],
        predictions: npt.NDArray[np.floating[Any]],
        model: int,
        late: bool,
    ) -> tuple[bytes, bytes]:
        """Key and value of one embedding.

        interaction: its id   node, peer: keys, with the kind byte   side: of the node, 0 user, 1 item
        embedding: float32 [D]
        predictions: [heads], written for side 0 only
        """
        kind, node_id = split_node_key(node)
        name, peer_id = interaction.decode(), split_node_key(peer)[1]
        user, item = (node_id, peer_id) if side == 0 else (peer_id, node_id)
        made_of_all = interaction_name(name, timestamp, user, item)
        content: dict[str, Any] = {"id": f"{made_of_all}/{side}/{model}", "interaction": name, "node": node_id}
        if kind is not None:
            content["kind"] = kind
        content["peer"] = peer_id
        content["timestamp"] = float(timestamp)
        if side == 0:
            probabilities = [round(p, _PROBABILITY_DIGITS) for p in predictions.tolist()]
            content["predictions"] = dict(zip(self._heads, probabilities, strict=True))
        else:
            content["predictions"] = {}
        content["model"] = int(model)
        if late:
            content["late"] = True
        return output_key(self._topology, node), self._write(content, embedding)


class AlertEncoder:
    """Writes topic `alerts` of one deployment. schemas: where outputs are Avro"""

    def __init__(self, topology: Topology, schemas: OutputSchemas | None = None) -> None:
        self._topology = topology
        self._write = _writing(topology, "alert", None if schemas is None else schemas.alerts)

    def encode(
        self,
        *,
        interaction: bytes,
        node: bytes,
        peer: bytes,
        head: str,
        probability: float,
        threshold: float,
        timestamp: float,
        model: int,
        because: Iterable[tuple[bytes, bytes, float, float]],
    ) -> tuple[bytes, bytes]:
        """Key and value of one alert.

        node, peer: keys of the user and of the item
        because: (peer's key, interaction id, unix seconds, weight), largest weight first
        """
        kind, node_id = split_node_key(node)
        name, peer_id = interaction.decode(), split_node_key(peer)[1]
        made_of_all = interaction_name(name, timestamp, node_id, peer_id)
        content: dict[str, Any] = {"id": f"{made_of_all}/{head}/{model}", "interaction": name, "node": node_id}
        if kind is not None:
            content["kind"] = kind
        content |= {
            "peer": peer_id,
            "head": head,
            "probability": round(float(probability), _PROBABILITY_DIGITS),
            "threshold": float(threshold),
            "timestamp": float(timestamp),
            "model": int(model),
            "because": [
                {
                    "interaction": past.decode(),
                    "peer": split_node_key(peer)[1],
                    "time": float(time),
                    "weight": round(float(weight), _PROBABILITY_DIGITS),
                }
                for peer, past, time, weight in because
            ],
        }
        return output_key(self._topology, node), self._write(content, None)


class LatestEncoder:
    """Writes topic `latest` of one deployment. schemas: where outputs are Avro"""

    def __init__(self, topology: Topology, schemas: OutputSchemas | None = None) -> None:
        self._heads = topology.head_names
        self._write = _writing(topology, "latest", None if schemas is None else schemas.latest, VECTOR)

    def encode(
        self,
        *,
        node: bytes,
        timestamp: float,
        interactions: int,
        probability: npt.NDArray[np.floating[Any]],
        is_complete: bool,
        model: int,
        embedding: npt.NDArray[np.float32],
    ) -> tuple[bytes, bytes]:
        """Key and value of one node.

        node: its key, with the kind byte   timestamp: of its newest interaction   embedding: float32 [D], after that
        probability: [heads], NaN for a head that has said nothing
        """
        kind, node_id = split_node_key(node)
        content: dict[str, Any] = {"node": node_id}
        if kind is not None:
            content["kind"] = kind
        said = zip(self._heads, probability.tolist(), strict=True)
        content |= {
            "timestamp": float(timestamp),
            "interactions": int(interactions),
            "predictions": {head: round(p, _PROBABILITY_DIGITS) for head, p in said if math.isfinite(p)},
            "complete": bool(is_complete),
            "model": int(model),
        }
        return kind_and_id(node), self._write(content, embedding)


def latest_headers(topology: Topology, model: int) -> HeaderList:
    """Headers of a record of `latest`: how to read it, and the model."""
    return [
        ("content-type", CONTENT_TYPES[topology.kafka.output_format].encode()),
        ("schema-version", OUTPUT_SCHEMA_VERSIONS["kind/id"].encode()),
        ("model", b"%d" % model),
    ]


def output_headers(topology: Topology, model: int, topic: str, partition: int, offset: int) -> HeaderList:
    """Headers of an embedding or alert: how to read it, the model, and the record that it came from."""
    return [
        ("content-type", CONTENT_TYPES[topology.kafka.output_format].encode()),
        ("schema-version", OUTPUT_SCHEMA_VERSIONS[topology.kafka.output_key].encode()),
        ("model", b"%d" % model),
        ("source-topic", topic.encode()),
        ("source-partition", b"%d" % partition),
        ("source-offset", b"%d" % offset),
    ]


def punctuation_headers(watermark: float) -> HeaderList:
    """Headers of a record without value that says: nothing before `watermark` (unix seconds) will follow here."""
    return [("watermark", repr(float(watermark)).encode())]


def _writing(topology: Topology, name: str, schema_id: int | None, vector: str = "") -> _Write:
    """What makes a value of a record's fields, and of its vector, which becomes the last field of this name."""
    form = topology.kafka.output_format
    if form == "avro":
        if schema_id is None:
            raise ValueError("Avro needs the ids of schemas: register_output_schemas")
        return AvroWriter(avro_schema(AVRO_RECORDS[name]), schema_id, vector).write
    return _write_msgpack if form == "msgpack" else _write_json


def _write_json(content: dict[str, Any], vector: npt.NDArray[np.float32] | None) -> bytes:
    if vector is not None:
        content[VECTOR] = np.ascontiguousarray(vector, np.float32)
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _write_msgpack(content: dict[str, Any], vector: npt.NDArray[np.float32] | None) -> bytes:
    """Of a vector msgpack would take each number as float64; a packed float32 is a tag byte and four big-endian."""
    if vector is None:
        return bytes(msgpack.packb(content))
    packed = np.empty(len(vector), np.dtype([("tag", "u1"), ("value", ">f4")]))
    packed["tag"] = _FLOAT32_TAG
    packed["value"] = vector
    fields = msgpack.packb({**content, VECTOR: None})
    return bytes(fields[:-1]) + _ARRAY16_TAG + len(vector).to_bytes(2, "big") + packed.tobytes()
