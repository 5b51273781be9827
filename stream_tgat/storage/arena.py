"""The nodes of a worker in memory: a bounded cache of their rows over the stores of its partitions.

Nodes that have uncommitted changes or a row pending are pinned; the others are dropped, least recently used first, when
`cache_bytes` are used up. It knows how rows are kept, and nothing of what is computed from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import StateError
from stream_tgat.storage import rows, tables
from stream_tgat.storage.layout import PENDING_PREFIX, Layout
from stream_tgat.storage.pending import queue_early
from stream_tgat.storage.reading import load_nodes
from stream_tgat.storage.stores import Store
from stream_tgat.storage.tables import EARLY, NODE, PARTITION, PENDING, ROW, Array, Tables, plain
from stream_tgat.storage.writing import Changes, change_costs, changes, clear_changes

_FULL, _AFTER_EVICTION = 0.9, 0.8
_FEWEST_SLOTS = 256
_OF_SLOTS = ("payload", "rows", "ids", "peers", "levels", "origins", "free")

#: The partition of all nodes, or that of each: i4[n].
Owners = int | NDArray[np.int32]


class Arena:
    """All rows in memory, by node.

    first_layer: the layer that a new row's computation begins with (1 where there is no layer-0 state).
    looks_back: the lowest layer that reads a node's past (0 where the layer-0 state tells of activity).
    probability, newest, alerted: f8[N, heads], what each prediction head said of a node's newest row, when that was,
    and when its newest alert was; NaN and minus infinity for never
    """

    def __init__(self, layout: Layout, cache_bytes: int, first_layer: int, looks_back: int = 1) -> None:
        self.layout = layout
        self.cache_bytes = cache_bytes
        self.first_layer = first_layer
        self.looks_back = looks_back
        self.stores: dict[int, Store] = {}
        self._places: dict[bytes, int] = {}
        self._free_places: list[int] = []
        self._places_used = 0
        self._tick = 0
        #: Nodes that were looked up in memory, and those of them that were not there.
        self.lookups = self.misses = 0
        # Nodes whose changes were taken and are not in the store yet: one entry for each taking, oldest first.
        self._in_flight: dict[int, deque[NDArray[np.int32]]] = {}
        words = layout.id_bytes // 8
        heads = len(layout.prediction_heads)
        self.slot_bytes = 4 * layout.payload_width + ROW.itemsize + 16 * words + 8 + 4 + 16 + heads
        widths = 4 * layout.feature_width + 24 * heads + 8 * layout.sums_width
        self.node_bytes = NODE.itemsize + 200 + 2 * layout.id_bytes + widths
        slots = max(_FEWEST_SLOTS, cache_bytes // self.slot_bytes)
        places = 1024
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
            costs=change_costs(layout),
            sums=np.zeros((places, layout.sums_width)),
            decay_s=np.array(layout.decay_s, np.float64),
            freed=np.zeros((places, 2), np.int32),
            counters=np.zeros(tables.COUNTERS, np.int64),
        )
        self.features = np.zeros((places, layout.feature_width), np.float32)
        self.probability = np.full((places, heads), np.nan)
        self.newest = np.full((places, heads), -np.inf)
        self.alerted = np.full((places, heads), -np.inf)

    # Partitions

    def open(self, partition: int, store: Store, now: float) -> None:
        """Take over a partition; its nodes with pending rows are loaded at once."""
        if partition in self.stores:
            raise StateError(f"partition {partition} is open already; drop it first")
        self.stores[partition] = store
        self._in_flight[partition] = deque()
        self.t = _grown(self.t, ("partitions",), partition + 1)
        self.t.partitions[partition] = (-1, 0, 0, 0)
        self._tick += 1
        try:
            waiting = [key[1:].rstrip(b"\0") for key, _ in store.scan(PENDING_PREFIX)]
            self._load(partition, waiting, now)
        except BaseException:
            self.drop(partition)
            raise

    def drop(self, partition: int) -> None:
        """Forget a partition, changes and all."""
        del self.stores[partition], self._in_flight[partition]
        t = self.t
        nodes = np.flatnonzero(t.nodes["resident"] & (t.nodes["partition"] == partition)).astype(np.int32)
        clear_changes(t, partition, False)
        self._unload(nodes)
        queue_early(t)

    def store_of(self, partition: int) -> Store:
        """The store of an open partition."""
        try:
            return self.stores[partition]
        except KeyError:
            raise StateError(f"partition {partition} is not open") from None

    # What comes in

    def append(
        self,
        partition: Owners,
        node: NDArray[np.bytes_],
        peer: NDArray[np.bytes_],
        interaction: NDArray[np.bytes_],
        side: NDArray[np.uint8],
        time: NDArray[np.float64],
        passed: NDArray[np.float64],
        edge: NDArray[np.float32],
        origin: NDArray[np.int64],
        now: float,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Half-edges become rows; returns which are new, came behind, differ from what is there: `engine.Appended`."""
        nodes = self.nodes_of(partition, node, now)
        ids, peers = self.layout.words(interaction), self.layout.words(peer)
        side, time, passed = plain(side, np.uint8), plain(time, np.float64), plain(passed, np.float64)
        edge, origin = plain(edge, np.float32), plain(origin, np.int64)
        self.reserve_pending(len(nodes))
        added, behind, differs = np.zeros((3, len(nodes)), np.bool_)
        first, looks_back = self.first_layer, self.looks_back
        self.with_room(
            len(nodes),
            lambda t, begin: rows.append_rows(
                t, begin, nodes, ids, peers, side, time, passed, edge, origin, first, looks_back, now,
                added, behind, differs,
            ),
        )  # fmt: skip
        return added, behind, differs

    def fill(
        self,
        partition: Owners,
        node: NDArray[np.bytes_],
        peer: NDArray[np.bytes_],
        interaction: NDArray[np.bytes_],
        side: NDArray[np.uint8],
        time: NDArray[np.float64],
        version: NDArray[np.int64],
        vectors: NDArray[np.float32],
        layer: int,
        now: float,
    ) -> int:
        """Peer embeddings of one layer enter their rows; returns how many counted."""
        nodes = self.nodes_of(partition, node, now)
        ids, peers = self.layout.words(interaction), self.layout.words(peer)
        side, time, version = plain(side, np.uint8), plain(time, np.float64), plain(version, np.int64)
        vectors = plain(vectors, np.float32)
        counted, placeholders = np.zeros((2, len(nodes)), np.bool_)
        offset = self.layout.peer_embedding_offsets[layer]
        self.with_room(
            len(nodes),
            lambda t, begin: rows.fill_peer_embeddings(
                t, begin, nodes, ids, peers, side, time, version, vectors, layer, offset, counted, placeholders
            ),
        )
        if placeholders.any():
            # A peer embedding of a row that is long gone leaves no placeholder behind. One that found its row has
            # changed nothing here.
            self.retain(nodes[placeholders])
        return int(counted.sum())

    def set_features(
        self, partition: Owners, node: NDArray[np.bytes_], vectors: NDArray[np.float32], now: float
    ) -> None:
        """Own features of nodes."""
        nodes = self.nodes_of(partition, node, now)
        self.features[nodes] = vectors
        rows.mark_features(self.t, nodes)

    def retain(self, nodes: NDArray[np.int32]) -> None:
        """Drop the rows of these nodes that no query can reach any more."""
        t = self.t
        in_use = int(t.counters[tables.ROWS_USED] - t.counters[tables.ROWS_FREE])
        self.t = _grown(self.t, ("freed",), int(t.counters[tables.FREED]) + in_use)
        rows.retain(self.t, nodes, self.layout.candidates, 2 * self.layout.candidates)

    # What goes out

    def take_changes(self, partition: int) -> Changes:
        """Keys and values that differ from the store: deletions, rows, peer embeddings, node records, features, pending
        marks.

        Each change is told once. Its node stays in memory until it is `committed`, as its store is behind.
        """
        self.store_of(partition)
        result, nodes = changes(self, partition)
        clear_changes(self.t, partition, bool(result))
        if result:
            self._in_flight[partition].append(nodes)
        return result

    def taken_last(self, partition: int) -> NDArray[np.int32]:
        """Places of the nodes whose changes were taken last and are not committed: [n]."""
        in_flight = self._in_flight[partition]
        return in_flight[-1] if in_flight else np.empty(0, np.int32)

    def changes_bytes(self, partition: int) -> int:
        """Upper estimate of the bytes of the next changes, keys included."""
        self.store_of(partition)
        return int(self.t.partitions["bytes"][partition])

    def committed(self, partition: int) -> None:
        """The changes that were taken first are in the store."""
        if not self._in_flight[partition]:
            raise StateError(f"partition {partition}: no changes were taken that could be committed")
        self.t.nodes["in_flight"][self._in_flight[partition].popleft()] -= 1

    def save(self, partition: int) -> None:
        """Take the changes and write them to the store at once."""
        changes = self.take_changes(partition)
        if changes:
            self.store_of(partition).write(changes)
            self.committed(partition)

    # Nodes

    def nodes_of(self, partition: Owners, node: NDArray[np.bytes_], now: float) -> NDArray[np.int32]:
        """Places of nodes S[n] in the arena, loaded or made where they are not there: [n]."""
        self._tick += 1
        self.lookups += len(node)
        self._evict(0)
        get = self._places.get
        keys = node.tolist()
        places = [get(key, -1) for key in keys]
        found = np.array(places, np.int32)
        # Before anything is loaded, so that nothing of this batch is evicted for it.
        self.t.nodes["used_at"][found[found >= 0]] = self._tick
        if found.size and found.min() < 0:
            if node.dtype.itemsize > self.layout.id_bytes and max(map(len, keys)) > self.layout.id_bytes:
                raise ValueError(f"a node key is longer than {self.layout.id_bytes} bytes")
            missing: dict[int, dict[bytes, None]] = {}
            absent = np.flatnonzero(found < 0).tolist()
            self.misses += len(absent)
            for k, owner in zip(absent, np.broadcast_to(partition, len(keys))[absent].tolist(), strict=True):
                missing.setdefault(owner, {})[keys[k]] = None
            for owner, theirs in missing.items():
                self._load(owner, list(theirs), now)
            found = np.array([get(key, -1) for key in keys], np.int32)
        return found

    def _load(self, partition: int, keys: Sequence[bytes], now: float) -> None:
        """Bring nodes that are not in memory from their partition's store; new ones begin empty."""
        if keys:
            load_nodes(self, self.store_of(partition), keys, self._take_places(keys, partition), now)

    def _take_places(self, keys: Sequence[bytes], partition: int) -> NDArray[np.int32]:
        """Empty places for nodes that are not in memory."""
        again = [self._free_places.pop() for _ in range(min(len(keys), len(self._free_places)))]
        fresh = len(keys) - len(again)
        places = np.array([*again, *range(self._places_used, self._places_used + fresh)], np.int32)
        self._places_used += fresh
        if self._places_used > len(self.t.nodes):
            size = max(self._places_used, 2 * len(self.t.nodes))
            self.t = _grown(self.t, ("nodes", "keys", "sums"), size)
            self.features = _longer(self.features, size)
            self.probability = _longer(self.probability, size)
            self.newest = _longer(self.newest, size)
            self.alerted = _longer(self.alerted, size)
        empty = np.zeros(1, NODE)
        empty["partition"], empty["resident"], empty["used_at"] = partition, True, self._tick
        self.t.nodes[places] = empty
        self.t.keys[places] = self.layout.words(np.array(keys))
        self.features[places] = 0
        self.t.sums[places] = 0
        self.t.sums[places, :1] = -np.inf
        self.probability[places], self.newest[places], self.alerted[places] = np.nan, -np.inf, -np.inf
        self._places.update(zip(keys, places.tolist(), strict=True))
        return places

    # Room

    def used_bytes(self) -> int:
        """What nodes and rows in memory take, as `cache_bytes` counts it."""
        counters = self.t.counters
        in_use = int(counters[tables.ROWS_USED] - counters[tables.ROWS_FREE])
        return in_use * self.slot_bytes + len(self._places) * self.node_bytes

    def _evict(self, slots: int) -> None:
        """Drop least recently used nodes when the cache is nearly full, or until `slots` slots are free."""
        used = self.used_bytes()
        excess = used - int(_AFTER_EVICTION * self.cache_bytes) if used > _FULL * self.cache_bytes else 0
        excess = max(excess, slots * self.slot_bytes)
        if excess <= 0:
            return
        nodes = self.t.nodes[: self._places_used]
        idle = nodes["resident"] & ~nodes["dirty"] & (nodes["in_flight"] == 0) & (nodes["pending"] == 0)
        idle &= nodes["used_at"] < self._tick
        places = np.flatnonzero(idle).astype(np.int32)
        places = places[np.argsort(nodes["used_at"][places], kind="stable")]
        freed = np.cumsum(nodes["count"][places].astype(np.int64) * self.slot_bytes + self.node_bytes)
        self._unload(places[: int(np.searchsorted(freed, excess)) + 1])

    def _unload(self, places: NDArray[np.int32]) -> None:
        rows.unload(self.t, places)
        for key in self.keys_of(places).tolist():
            del self._places[key]
        self._free_places += places.tolist()

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
            self._evict(len(t.rows) // 8)
            if t.counters[tables.ROWS_FREE] == 0:
                # All is pinned: correctness before the bound.
                self.t = _grown(t, _OF_SLOTS, len(t.rows) + len(t.rows) // 2)
        else:
            self.t = _grown(t, ("order", "number"), 2 * len(t.order))

    def reserve_pending(self, more: int) -> None:
        """Room for `more` pending rows."""
        needed = int(self.t.counters[tables.PENDING_COUNT]) + more
        self.t = _grown(self.t, ("pending", "early", "states"), needed)

    def names_at(self, slots: Array) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_], NDArray[np.bytes_]]:
        """Of row slots i4[n]: their nodes' keys, their peers' keys and their interaction ids, each S[n]."""
        names = np.empty((3, len(slots), self.layout.id_bytes), np.uint8)
        rows.names_at(self.t, slots, names)
        nodes, peers, interactions = names.view(self.layout.name)[..., 0]
        return nodes, peers, interactions

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
    """Tables whose named arrays have room for `size` entries, doubling where they grow at all."""
    if len(getattr(t, names[0])) >= size:
        return t
    size = max(size, len(getattr(t, names[0])) * 3 // 2)
    return t._replace(**{name: _longer(getattr(t, name), size) for name in names})
