"""What the workers wrote, read back: predictions without the vectors, which are most of the bytes, and alerts.

An embedding's vector is its last field (`encode.EmbeddingEncoder`), so of JSON and MessagePack what comes before it can
be decoded alone: a tenth of the time where it has 172 numbers. A record that is not as the workers write it is decoded
as a whole.
"""

from functools import cached_property
from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt
import orjson

from stream_tgat.errors import WireError
from stream_tgat.schema_registry import MAGIC, RegisteredValues
from stream_tgat.topology import Kind, Topology
from stream_tgat.wire.formats import Headers, decode_object, is_msgpack
from stream_tgat.wire.output_schemas import VECTOR
from stream_tgat.wire.values import schema_registry

_JSON_VECTOR = b',"embedding":['


class DecodedEmbedding(NamedTuple):
    """An embedding without its vector. side: 0 user, 1 item   predictions: of each head, or nothing

    node, peer: keys of the interaction's ends
    """

    interaction: bytes
    node: bytes
    peer: bytes
    side: int
    timestamp: float
    predictions: tuple[float, ...]
    model: int


class DecodedAlert(NamedTuple):
    """An alert without its reasons. node, peer: keys of the user and of the item"""

    interaction: bytes
    node: bytes
    peer: bytes
    timestamp: float
    head: str


class OutputValues:
    """Reads values of the topics that workers write, each in the format that it has: a topic may hold older ones.

    All that reads raises WireError for what is none; of Avro also UnreachableRegistryError, AccessError and
    SettingsError if the registry cannot be asked for a schema that was not asked for before.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    @cached_property
    def registered(self) -> RegisteredValues:
        """Of those in Avro, whose schemas are in the topology's registry."""
        return RegisteredValues(schema_registry(self._topology.schema_registry))

    def fields(self, value: bytes | None, headers: Headers | None) -> dict[str, Any]:
        """All fields of a value."""
        value = value or b""
        return self._avro(value) if value.startswith(MAGIC) else decode_object(value, headers)

    def before_vector(self, value: bytes | None, headers: Headers | None) -> dict[str, Any]:
        """The fields that come before the vector at least."""
        value = value or b""
        return self._avro(value) if value.startswith(MAGIC) else _before_vector(value, headers)

    def _avro(self, value: bytes) -> dict[str, Any]:
        if not self._topology.schema_registry.url:
            raise WireError("is Avro, and the topology has no [schema_registry]: set schema_registry.url")
        return self.registered.record(value)


class OutputDecoder:
    """Reads topics `embeddings` and `alerts` of one deployment; raises as `OutputValues` does."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._values = OutputValues(topology)
        self._heads = topology.head_names

    def embedding(self, value: bytes | None, headers: Headers | None) -> DecodedEmbedding:
        """One record of `embeddings`. Heads that the topology does not know are left out, missing ones are NaN."""
        content = self._values.before_vector(value, headers)
        try:
            _, half, _ = content["id"].rsplit("/", 2)
            side = int(half)
            said = content["predictions"]
            predictions = tuple([float(said.get(name, np.nan)) for name in self._heads]) if said else ()
            return DecodedEmbedding(
                content["interaction"].encode(),
                *self._ends(content, side),
                side,
                float(content["timestamp"]),
                predictions,
                int(content["model"]),
            )
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as problem:
            raise WireError(f"not an embedding: {problem!r}") from None

    def vector(self, value: bytes | None, headers: Headers | None) -> npt.NDArray[np.float32]:
        """The vector of a record of `embeddings`: [D]."""
        try:
            return np.array(self._values.fields(value, headers)[VECTOR], np.float32)
        except (KeyError, ValueError, TypeError) as problem:
            raise WireError(f"not an embedding: {problem!r}") from None

    def alert(self, value: bytes | None, headers: Headers | None) -> DecodedAlert:
        """One record of `alerts`."""
        content = self._values.fields(value, headers)
        try:
            return DecodedAlert(
                content["interaction"].encode(),
                *self._ends(content, 0),
                float(content["timestamp"]),
                str(content["head"]),
            )
        except (KeyError, ValueError, TypeError, AttributeError) as problem:
            raise WireError(f"not an alert: {problem!r}") from None

    def _ends(self, content: dict[str, Any], side: int) -> tuple[bytes, bytes]:
        """Keys of node and peer."""
        own: Kind = "item" if side else "user"
        other: Kind = "user" if side else "item"
        return self._topology.node_key(own, content["node"]), self._topology.node_key(other, content["peer"])


def _before_vector(value: bytes, headers: Headers | None) -> dict[str, Any]:
    """The fields that come before the vector; all of them where they are in another order."""
    if is_msgpack(headers):
        return _unpacked_before_vector(value) or decode_object(value, headers)
    # Inside a text the quotes would be escaped, and a head of this name has a number.
    end = value.find(_JSON_VECTOR)
    if end < 0 or not value.endswith(b"]}"):
        return decode_object(value, headers)
    try:
        content = orjson.loads(value[:end] + b"}")
    except orjson.JSONDecodeError:
        return decode_object(value, headers)
    return content if type(content) is dict else decode_object(value, headers)


def _unpacked_before_vector(value: bytes) -> dict[str, Any]:
    """Empty where the value is none of ours."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(value)
    content: dict[str, Any] = {}
    try:
        for _ in range(unpacker.read_map_header()):
            key = unpacker.unpack()
            if key == VECTOR:
                return content
            content[key] = unpacker.unpack()
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return {}
    return content
