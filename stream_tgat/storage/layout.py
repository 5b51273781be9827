"""The bytes of a node's state: which keys there are, what their values hold, and how wide everything is.

A node is never one value: an append would rewrite 50 kB. Keys, with `node` padded to `id_bytes`:

    h node               record: counters, alert states, and the live rows in their order (see `tables`)
    r node number        row: one past interaction; written once (twice if its peer embedding came before it)
    m node number layer  peer embedding of a row: the peer's state h^(layer) at the time of the interaction
    f node               own features
    p node               exists while the node has a row whose embedding has not left

Only rows listed in the node record exist. Row numbers are used again; a peer embedding counts only if its `seq` is its
row's.
"""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import TopologyError

MAX_LAYERS: Final = 4
NODE_PREFIX: Final = b"h"
PENDING_PREFIX: Final = b"p"

PLACEHOLDER: Final = 1
LATE: Final = 2


class NodeRecord(NamedTuple):
    """What is kept of a node beside its rows. seq, evicted: counters   alerts: `Layout.alert` of each prediction head
    that had one
    entries: of the live rows in their order, number · 2 + done   levels: u1[rows, alerts], what each head said of them
    """

    seq: int
    evicted: int
    alerts: NDArray[np.void]
    sums: NDArray[np.float64]
    entries: NDArray[np.unsignedinteger[Any]]
    levels: NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """Widths of everything that is stored of a node.

    id_bytes: width of node keys and interaction ids, a multiple of 8.   edge_width: E.   feature_width: F.
    state_widths: (w_0, …, w_(L-1)) of the peer embeddings; w_0 may be 0, others not.
    candidates: C, how many past interactions a query may look back.
    prediction_heads: names of those with an alert state; each state is stored with a hash of its name (`head_ids`), so
    that heads may come, go and change places, and those that stay go on.
    decay_s: time constants of the decayed sums kept of a node's dropped rows, seconds.   sums_width: numbers of these
    sums: when the newest of them was, then S of each constant (see `graph.decayed`); 0 where there are no constants.
    name: the type of node keys and interaction ids.
    payload_width: floats of a row in memory, [edge ‖ peer embedding 0 ‖ peer embedding 1 …].   peer_embedding_offsets:
    where each peer embedding begins there.
    """

    id_bytes: int
    edge_width: int
    feature_width: int
    state_widths: tuple[int, ...]
    candidates: int
    prediction_heads: tuple[str, ...]
    decay_s: tuple[float, ...] = ()
    sums_width: int = field(init=False, repr=False)
    head_ids: NDArray[np.uint32] = field(init=False, repr=False, compare=False)
    name: np.dtype[np.bytes_] = field(init=False, repr=False)
    row: np.dtype[np.void] = field(init=False, repr=False)
    peer_embedding: tuple[np.dtype[np.void], ...] = field(init=False, repr=False)
    alert: np.dtype[np.void] = field(init=False, repr=False)
    node_record: np.dtype[np.void] = field(init=False, repr=False)
    node_start: struct.Struct = field(init=False, repr=False, compare=False)
    key: struct.Struct = field(init=False, repr=False, compare=False)
    row_key_type: np.dtype[np.void] = field(init=False, repr=False)
    peer_embedding_key_type: np.dtype[np.void] = field(init=False, repr=False)
    payload_width: int = field(init=False, repr=False)
    peer_embedding_offsets: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.id_bytes % 8 or self.id_bytes < 8:
            raise ValueError(f"id_bytes is {self.id_bytes}; a multiple of 8 is needed")
        if not 1 <= len(self.state_widths) <= MAX_LAYERS:
            raise ValueError(f"{len(self.state_widths)} layers; 1 to {MAX_LAYERS} are possible")
        name = np.dtype(f"S{self.id_bytes}")
        row: list[tuple[Any, ...]] = [
            ("interaction", name),
            ("peer", name),
            ("time", "<f8"),
            ("origin", "<i8"),
            ("seq", "<u4"),
            ("side", "u1"),
            ("flags", "u1"),
            ("edge", "<f4", (self.edge_width,)),
        ]
        peer_embedding = tuple(
            np.dtype([("seq", "<u4"), ("version", "<i8"), ("vector", "<f4", (width,))]) for width in self.state_widths
        )
        head_ids = np.array([zlib.crc32(head.encode()) for head in self.prediction_heads], np.uint32)
        if len(set(head_ids.tolist())) < len(head_ids):
            raise TopologyError(f"two of the prediction heads {self.prediction_heads} cannot be told apart; rename one")
        sums_width = 1 + len(self.decay_s) * (1 + self.edge_width) if self.decay_s else 0
        alert = np.dtype([("head", "<u4"), ("probability", "<f8"), ("newest", "<f8"), ("alerted", "<f8")])
        node_record: list[tuple[Any, ...]] = [
            ("seq", "<u4"),
            ("evicted", "<u8"),
            ("count", "<u4"),
            ("entry_bytes", "u1"),
            ("alert_count", "<u2"),
            ("alerts", alert, (len(head_ids),)),
            ("sums", "<f8", (sums_width,)),
        ]
        numbered: list[tuple[Any, ...]] = [("kind", "S1"), ("node", name), ("number", ">u4")]
        ends = np.cumsum((self.edge_width, *self.state_widths)).tolist()
        object.__setattr__(self, "row_key_type", np.dtype(numbered))
        object.__setattr__(self, "peer_embedding_key_type", np.dtype([*numbered, ("layer", "u1")]))
        object.__setattr__(self, "payload_width", ends[-1])
        object.__setattr__(self, "peer_embedding_offsets", tuple(ends[:-1]))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "row", np.dtype(row))
        object.__setattr__(self, "peer_embedding", peer_embedding)
        object.__setattr__(self, "node_record", np.dtype(node_record))
        # The same fields up to the alerts: numpy takes ten times as long to read one record.
        object.__setattr__(self, "node_start", struct.Struct("<IQIBH"))
        object.__setattr__(self, "alert", alert)
        object.__setattr__(self, "sums_width", sums_width)
        object.__setattr__(self, "head_ids", head_ids)
        object.__setattr__(self, "key", struct.Struct(f">c{self.id_bytes}sI"))

    def node_key(self, kind: bytes, node: bytes) -> bytes:
        """The key of a node's record (b"h"), features (b"f") or pending mark (b"p")."""
        return kind + node.ljust(self.id_bytes, b"\0")

    def row_key(self, node: bytes, number: int) -> bytes:
        """The key of a row."""
        return self.key.pack(b"r", node, number)

    def peer_embedding_key(self, node: bytes, number: int, layer: int) -> bytes:
        """The key of a row's peer embedding."""
        return self.key.pack(b"m", node, number) + bytes((layer,))

    def read_node(self, value: bytes) -> NodeRecord:
        """A node's record from its bytes, whichever prediction heads there were when it was written."""
        seq, evicted, count, entry_bytes, alert_count = self.node_start.unpack_from(value)
        at = self.node_start.size
        alerts = np.frombuffer(value, self.alert, alert_count, at)
        at += alerts.nbytes
        sums = np.frombuffer(value, "<f8", self.sums_width, at)
        at += sums.nbytes
        entries = np.frombuffer(value, f"<u{entry_bytes}", count, at)
        levels = _unpacked_levels(value[at + entries.nbytes :], count, alert_count)
        return NodeRecord(seq, evicted, alerts, sums, entries, levels)

    def words(self, values: NDArray[np.bytes_]) -> NDArray[np.uint64]:
        """Byte strings S[n] as words u8[n, I]; big-endian, so that the words compare as the bytes do."""
        width = self.id_bytes
        if values.dtype.itemsize > width and values.size and np.char.str_len(values).max() > width:
            raise ValueError(f"an id is longer than {width} bytes")
        words = np.array(values, self.name, order="C").view(np.uint64).reshape(len(values), width // 8)
        return words.byteswap(inplace=True) if sys.byteorder == "little" else words

    def strings(self, words: NDArray[np.uint64]) -> NDArray[np.bytes_]:
        """The inverse of `words`: S[n]."""
        return np.ascontiguousarray(words.astype(">u8")).view(self.name).reshape(len(words))

    def row_keys(self, nodes: NDArray[np.bytes_], numbers: NDArray[np.int64]) -> list[bytes]:
        """`row_key` of many: nodes S[n], numbers [n]."""
        keys = np.empty(len(nodes), self.row_key_type)
        keys["kind"], keys["node"], keys["number"] = b"r", nodes, numbers
        return _cut(keys)

    def peer_embedding_keys(self, nodes: NDArray[np.bytes_], numbers: NDArray[np.int64], layer: int) -> list[bytes]:
        """`peer_embedding_key` of many: nodes S[n], numbers [n]."""
        keys = np.empty(len(nodes), self.peer_embedding_key_type)
        keys["kind"], keys["node"], keys["number"], keys["layer"] = b"m", nodes, numbers, layer
        return _cut(keys)


def level_bytes(heads: int) -> int:
    """Bytes of a row's levels in the record of its node."""
    return -(-2 * heads // 8)


def _unpacked_levels(value: bytes, rows: int, heads: int) -> NDArray[np.uint8]:
    """Levels u1[rows, heads], each of two bits: of a row the high bit of each head, then the low bit of each."""
    packed = np.frombuffer(value, np.uint8, rows * level_bytes(heads)).reshape(rows, level_bytes(heads))
    bits = np.unpackbits(packed, axis=1, count=2 * heads)
    levels: NDArray[np.uint8] = 2 * bits[:, :heads] + bits[:, heads:]
    return levels


def _cut(entries: NDArray[np.void]) -> list[bytes]:
    width = entries.dtype.itemsize
    data = entries.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]
