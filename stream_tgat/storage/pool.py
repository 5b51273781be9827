"""The arrays that hold nodes and their rows in memory, and the room in them.

It knows neither the stores that nodes come from nor which nodes may be dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_tgat.storage import tables
from stream_tgat.storage.layout import Layout
from stream_tgat.storage.tables import EARLY, NODE, PARTITION, PENDING, ROW, Array, Tables

_FEWEST_SLOTS, _FIRST_PLACES = 256, 1024
_OF_SLOTS = ("payload", "rows", "ids", "peers", "levels", "origins", "free")


class Pool(ABC):
    """Row slots, node places and what is in them.

    first_layer: the layer that a new row's computation begins with (1 where there is no layer-0 state)
    t: the arrays that compiled loops take; another tuple whenever one of them has grown
    features: f4[N, F], own features of nodes
    probability, newest, alerted: f8[N, heads], what each prediction head said of a node's newest row, when that was,
    and when its newest alert was; NaN and minus infinity for never
    """

    def __init__(self, layout: Layout, pool_bytes: int, first_layer: int) -> None:
        """pool_bytes: room for rows at the beginning; more is taken where all rows have to stay."""
        self.layout = layout
        self.first_layer = first_layer
        words, heads, places = layout.id_bytes // 8, len(layout.prediction_heads), _FIRST_PLACES
        self.slot_bytes = 4 * layout.payload_width + ROW.itemsize + 16 * words + 8 + 4 + 16 + heads
        widths = 4 * layout.feature_width + 24 * heads + 8 * layout.sums_width
        self.node_bytes = NODE.itemsize + 200 + 2 * layout.id_bytes + widths
        slots = max(_FEWEST_SLOTS, pool_bytes // self.slot_bytes)
        self.t = Tables(
            payload=np.zeros((slots, layout.payload_width), np.float32),
            rows=np.zeros(slots, ROW),
            ids=np.zeros((slots, words), np.uint64),
            peers=np.zeros((slots, words), np.uint64),
            levels=np.zeros((slots, heads), np.uint8),
            origins=np.zeros(slots, np.int64),
            free=np.zeros(slots, np.int32),
            nodes=np.zeros(places, NODE),
            keys=np.zeros((places, words), np.uint64),
            order=np.zeros(8 * places, np.int32),
            number=np.zeros(8 * places, np.int32),
            empty_blocks=np.full(32, -1, np.int64),
            pending=np.zeros(places, PENDING),
            early=np.zeros(places, EARLY),
            states=np.zeros((places, sum(layout.state_widths)), np.float32),
            partitions=np.zeros(0, PARTITION),
            costs=tables.change_costs(layout),
            sums=np.zeros((places, layout.sums_width)),
            decay_s=np.array(layout.decay_s, np.float64),
            freed=np.zeros((places, 2), np.int32),
            counters=np.zeros(tables.COUNTERS, np.int64),
        )
        self.features = np.zeros((places, layout.feature_width), np.float32)
        self.probability = np.full((places, heads), np.nan)
        self.newest = np.full((places, heads), -np.inf)
        self.alerted = np.full((places, heads), -np.inf)

    @abstractmethod
    def evict(self, slots: int) -> None:
        """Drop nodes until `slots` row slots are free, or all that are left have to stay."""

    @property
    def rows_in_use(self) -> int:
        """Row slots that hold a row."""
        return int(self.t.counters[tables.ROWS_USED] - self.t.counters[tables.ROWS_FREE])

    # Room

    def with_room(self, count: int, loop: Callable[[Tables, int], int]) -> None:
        """Run a compiled loop over `count` entries, which stops where it has no room, and on from there with more.

        loop: takes the tables and where to begin; returns where it has stopped
        """
        begin = loop(self.t, 0) if count else 0
        while begin < count:
            self._make_room()
            begin = loop(self.t, begin)

    def _make_room(self) -> None:
        """Free or add what a loop ran out of."""
        t = self.t
        if t.counters[tables.ROWS_FREE] == 0 and t.counters[tables.ROWS_USED] == len(t.rows):
            self.evict(len(t.rows) // 8)
            if t.counters[tables.ROWS_FREE] == 0:
                # All is pinned: correctness before the bound.
                self.t = _grown(t, _OF_SLOTS, len(t.rows) + len(t.rows) // 2)
        else:
            self.t = _grown(t, ("order", "number"), 2 * len(t.order))

    def reserve_pending(self, more: int) -> None:
        """Room for `more` pending rows."""
        needed = int(self.t.counters[tables.PENDING_COUNT]) + more
        self.t = _grown(self.t, ("pending", "early", "states"), needed)

    def reserve_freed(self) -> None:
        """Room to note that any row in memory is to be deleted from its store."""
        self.t = _grown(self.t, ("freed",), int(self.t.counters[tables.FREED]) + self.rows_in_use)

    def begin_partition(self, partition: int) -> None:
        """A partition of which nothing differs from its store."""
        self.t = _grown(self.t, ("partitions",), partition + 1)
        self.t.partitions[partition] = (-1, 0, 0, 0)

    def begin_nodes(self, places: NDArray[np.int32], keys: Sequence[bytes], partition: int, used_at: int) -> None:
        """Nodes without rows, features and alert states, by key, at places i4[n] that are free."""
        needed = int(places.max(initial=-1)) + 1
        if needed > len(self.t.nodes):
            size = max(needed, 2 * len(self.t.nodes))
            self.t = _grown(self.t, ("nodes", "keys", "sums"), size)
            self.features = _longer(self.features, size)
            self.probability = _longer(self.probability, size)
            self.newest = _longer(self.newest, size)
            self.alerted = _longer(self.alerted, size)
        empty = np.zeros(1, NODE)
        empty["partition"], empty["resident"], empty["used_at"] = partition, True, used_at
        self.t.nodes[places] = empty
        self.t.keys[places] = self.layout.words(np.array(keys))
        self.features[places] = 0
        self.t.sums[places] = 0
        self.t.sums[places, :1] = -np.inf
        self.probability[places], self.newest[places], self.alerted[places] = np.nan, -np.inf, -np.inf

    # Names

    def keys_of(self, nodes: Array) -> NDArray[np.bytes_]:
        """Keys S[n] of nodes, by their places."""
        return self.layout.strings(self.t.keys[nodes])

    def interactions_at(self, slots: Array) -> NDArray[np.bytes_]:
        """Interaction ids S[n] of row slots."""
        return self.layout.strings(self.t.ids[slots])

    def peers_at(self, slots: Array) -> NDArray[np.bytes_]:
        """Peers' keys S[n] of row slots."""
        return self.layout.strings(self.t.peers[slots])


def _longer(array: Array, size: int) -> Array:
    """A copy with at least `size` entries."""
    if len(array) >= size:
        return array
    result = np.zeros((size, *array.shape[1:]), array.dtype)
    result[: len(array)] = array
    return result


def _grown(t: Tables, names: tuple[str, ...], size: int) -> Tables:
    """Tables whose named arrays have room for `size` entries, half as many more where they grow at all."""
    if len(getattr(t, names[0])) >= size:
        return t
    size = max(size, len(getattr(t, names[0])) * 3 // 2)
    return t._replace(**{name: _longer(getattr(t, name), size) for name in names})
