"""What the workers wrote, read back: predictions without the vectors, which are most of the bytes, and alerts.

An embedding's vector is its last field (`encode.EmbeddingEncoder`), so what comes before it can be decoded alone: a
tenth of the time where it has 172 numbers. A record that is not as the workers write it is decoded as a whole.
"""

from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt
import orjson

from stream_tgat.errors import WireError
from stream_tgat.topology import Kind, Topology
from stream_tgat.wire.formats import Headers, decode_object, is_msgpack

_VECTOR = "embedding"
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


class OutputDecoder:
    """Reads topics `embeddings` and `alerts` of one deployment; WireError says what is not as workers write it."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._heads = topology.head_names

    def embedding(self, value: bytes | None, headers: Headers | None) -> DecodedEmbedding:
        """One record of `embeddings`. Heads that the topology does not know are left out, missing ones are NaN."""
        content = _before_vector(value or b"", headers)
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
            return np.array(decode_object(value or b"", headers)[_VECTOR], np.float32)
        except (KeyError, ValueError, TypeError) as problem:
            raise WireError(f"not an embedding: {problem!r}") from None

    def alert(self, value: bytes | None, headers: Headers | None) -> DecodedAlert:
        """One record of `alerts`."""
        content = decode_object(value or b"", headers)
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
            if key == _VECTOR:
                return content
            content[key] = unpacker.unpack()
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return {}
    return content
