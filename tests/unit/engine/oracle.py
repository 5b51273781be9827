"""What the engine must give, by the recursion itself: float64, over the full history, one node and time by one."""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import FinalEmbeddings, HalfEdges
from stream_tgat.nn.model import Model
from tests.unit.nn.plain import plain_layer

Vector = NDArray[np.float64]
#: Time, interaction id, user, item and side: what makes a half-edge, and their order.
Key = tuple[float, bytes, bytes, bytes, int]


@dataclass(frozen=True, order=True)
class Row:
    """One half-edge of a node; rows sort as the engine must order them."""

    time: float
    interaction: bytes
    user: bytes
    item: bytes
    side: int
    index: int

    @property
    def node(self) -> bytes:
        return self.item if self.side else self.user

    @property
    def peer(self) -> bytes:
        return self.user if self.side else self.item

    @property
    def key(self) -> Key:
        return self.time, self.interaction, self.user, self.item, self.side


def keys_of(halves: HalfEdges | FinalEmbeddings) -> list[Key]:
    """What makes each of them, in their order."""
    fields = (halves.time, halves.interaction, halves.node, halves.peer, halves.side)
    return [
        (time, interaction, *((node, peer) if side == 0 else (peer, node)), side)
        for time, interaction, node, peer, side in zip(*(array.tolist() for array in fields), strict=True)
    ]


class Oracle:
    """All half-edges at once, repeats but once; every answer looks only at what is strictly earlier."""

    def __init__(self, model: Model, half_edges: HalfEdges, features: dict[bytes, Vector] | None = None) -> None:
        self.model = model
        self.features = features or {}
        self.edge = half_edges.edge.astype(np.float64)
        self.rows: dict[bytes, list[Row]] = {}
        known: set[Key] = set()
        for index, key in enumerate(keys_of(half_edges)):
            if key not in known:
                known.add(key)
                row = Row(*key, index)
                self.rows.setdefault(row.node, []).append(row)
        for rows in self.rows.values():
            rows.sort()
        self._known: dict[tuple[int, bytes, float], Vector] = {}

    def past(self, node: bytes, time: float) -> list[Row]:
        rows = self.rows.get(node, [])
        return rows[: bisect.bisect_left(rows, time, key=lambda row: row.time)]

    def neighbours(self, node: bytes, time: float) -> list[Row]:
        """The K that a query sees, of the C newest."""
        config, past = self.model.config, self.past(node, time)
        if config.sampling == "recent":
            return past[-config.neighbours :]
        newest = past[-config.candidates :]
        newer = [sum(other.time == row.time and other > row for other in past) for row in newest]
        ranks = [rank(time, row.time, count) for row, count in zip(newest, newer, strict=True)]
        return [newest[place] for place in sorted(range(len(newest)), key=ranks.__getitem__)[: config.neighbours]]

    def state(self, layer: int, node: bytes, time: float) -> Vector:
        """h^(layer) of a node at a time."""
        key = (layer, node, time)
        if key not in self._known:
            self._known[key] = self._layer0(node, time) if layer == 0 else self._layer(layer, node, time)
        return self._known[key]

    def _layer0(self, node: bytes, time: float) -> Vector:
        own = self.features.get(node, np.zeros(self.model.config.node_features))
        if not self.model.config.activity:
            return own
        past = self.past(node, time)
        back = [np.log1p(time - past[-steps].time) if len(past) >= steps else -1.0 for steps in (1, 5)]
        return np.array([*own, np.log1p(len(past)), *back])

    def _layer(self, layer: int, node: bytes, time: float) -> Vector:
        own = [self.state(below, node, time) for below in range(layer)]
        neighbours = [
            (self.state(layer - 1, row.peer, row.time), self.edge[row.index], time - row.time)
            for row in self.neighbours(node, time)
        ]
        return plain_layer(self.model, layer, own, neighbours)[0]

    def kept(self, node: bytes) -> list[Row]:
        """What remains when nothing is pending: the C newest strictly before the newest time, and the C newest."""
        rows, candidates = self.rows.get(node, []), self.model.config.candidates
        if not rows:
            return []
        before = self.past(node, rows[-1].time)
        return sorted({*before[-candidates:], *rows[-candidates:]})


def rank(query: float, time: float, newer: int) -> int:
    """How a row ranks in a query, by times and the number of the node's newer rows of the row's time."""
    return mix(mix(_bits(query)) ^ ((mix(_bits(time)) + newer) % 2**64))


def mix(h: int) -> int:
    """SplitMix64's finaliser (Steele et al., 2014)."""
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
    return h ^ h >> 31


def _bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
