"""What the service asks of a worker, and what comes back: parallel arrays, as MessagePack in frames.

A frame is its length (four bytes, big-endian) and its bytes. The first one of a connection holds the token; each that
follows is [number, question], answered, in any order, by [number, status, answer].
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

#: Of the URLs by which workers tell where they answer.
SCHEME: Final = "stream-tgat"
#: Most nodes of one question. The ends of a hundred pairs are one question, which is answered at one time and at once.
MOST_NODES: Final = 128
#: Most pairs, and most hypothetical interactions, of one question.
MOST_PAIRS: Final = 1024
MOST_BYTES: Final = 16 << 20

_LENGTH_BYTES: Final = 4


class Status(IntEnum):
    """What became of a question."""

    ANSWERED = 0
    #: The worker does not work on that partition now; somebody else does, or will.
    NOT_HERE = 1
    #: Nobody who knows what to ask asks this.
    REFUSED = 2


@dataclass(frozen=True)
class Question:
    """Of B nodes at B times; P times how one met a peer; Q times what heads say of an interaction with these features.

    node: keys   time: unix seconds, NaN for now   rows: how many of each node's past interactions to tell
    together: whether now is one time for all nodes, the latest of theirs
    """

    node: list[bytes]
    time: NDArray[np.float64]
    rows: int = 0
    met: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # [P], places among the nodes
    peer: list[bytes] = field(default_factory=list)  # [P], keys
    event: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # [Q], places among the nodes
    edge: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))  # [Q, E]
    together: bool = False

    def encode(self) -> bytes:
        """As bytes. Without `together` where it is not wanted: a worker of before knows nothing of it."""
        return _packed({name: each for name, each in vars(self).items() if name != "together" or each})

    @classmethod
    def decode(cls, value: bytes) -> Question:
        """The inverse of `encode`; ValueError for what is no question."""
        return cls(**_unpacked(value))


@dataclass(frozen=True)
class PastRows:
    """Past interactions of one node, oldest first; see `engine.Past`."""

    interaction: list[str]
    peer: list[bytes]
    side: NDArray[np.uint8]
    time: NDArray[np.float64]
    late: NDArray[np.bool_]
    edge: NDArray[np.float32]
    weight: NDArray[np.float32]


@dataclass(frozen=True)
class Reply:
    """To a `Question`; see `engine.Look` for what stands in it.

    model: version of the weights   received: f8[B], up to when all that happened is in it (unix seconds)
    """

    model: int
    received: NDArray[np.float64]
    time: NDArray[np.float64]
    embedding: NDArray[np.float32]  # [B, D]
    degree: NDArray[np.int64]
    last: NDArray[np.float64]
    is_cut: NDArray[np.bool_]
    awaited: NDArray[np.int64]
    probability: NDArray[np.float64]  # [B, heads]
    said_at: NDArray[np.float64]  # [B, heads]
    alerted: NDArray[np.float64]  # [B, heads]
    threshold: NDArray[np.float64]  # [heads]
    meetings: NDArray[np.float32]  # [P, 3]
    predictions: NDArray[np.float32]  # [Q, heads]
    past: list[PastRows]  # [B] if rows were asked for, else empty

    def encode(self) -> bytes:
        """As bytes."""
        return _packed(vars(self) | {"past": [_plain(vars(rows)) for rows in self.past]})

    @classmethod
    def decode(cls, value: bytes) -> Reply:
        """The inverse of `encode`."""
        fields = _unpacked(value)
        return cls(
            **fields | {"past": [PastRows(**{k: _array(v) for k, v in rows.items()}) for rows in fields["past"]]}
        )


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame; None at the end. ValueError if it is larger than any that is sent."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        if length > MOST_BYTES:
            raise ValueError(f"a frame of {length} bytes; at most {MOST_BYTES} are sent")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


def write_frame(writer: asyncio.StreamWriter, value: bytes) -> None:
    """Send a frame; the caller drains."""
    writer.write(len(value).to_bytes(_LENGTH_BYTES, "big") + value)


def _packed(fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(_plain(fields))
    return packed


def _unpacked(value: bytes) -> dict[str, Any]:
    return {name: _array(each) for name, each in msgpack.unpackb(value).items()}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [each.dtype.str, each.shape, np.ascontiguousarray(each).tobytes()]
        if isinstance(each, np.ndarray)
        else each
        for name, each in fields.items()
    }


def _array(value: Any) -> Any:
    """An array, if a value is one; its type is named by NumPy, of numbers only."""
    if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], list):
        kind = np.dtype(value[0])
        if kind.kind not in "biuf":
            raise ValueError(f"an array of {kind}")
        return np.frombuffer(value[2], kind).reshape(value[1]).copy()  # what is read-only compiles anew
    return value
