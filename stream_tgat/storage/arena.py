"""The nodes of a worker in memory: a bounded cache of their rows over the stores of its partitions.

Nodes that have uncommitted changes or a row pending are pinned; the others are dropped, least recently used first, when
`cache_bytes` are used up. It knows how rows are kept, and nothing of what is computed from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import StateError
from stream_tgat.rocks import Change
from stream_tgat.storage import rows
from stream_tgat.storage.changes import clear_changes, take_changes
from stream_tgat.storage.layout import PENDING_PREFIX, Layout
from stream_tgat.storage.pending import queue_early
from stream_tgat.storage.pool import Pool
from stream_tgat.storage.stored_nodes import load_nodes
from stream_tgat.storage.stores import Store
from stream_tgat.storage.tables import plain

_FULL, _AFTER_EVICTION = 0.9, 0.8

#: The partition of all nodes, or that of each: i4[n].
NodePartitions = int | NDArray[np.int32]


class Arena(Pool):
    """The rows in memory, by node.

    looks_back: the lowest layer that reads a node's past (0 where the layer-0 state tells of activity).
    """

    def __init__(self, layout: Layout, cache_bytes: int, first_layer: int, looks_back: int = 1) -> None:
        super().__init__(layout, cache_bytes, first_layer)
        self.cache_bytes = cache_bytes
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

    # Partitions

    def open(self, partition: int, store: Store, now: float) -> None:
        """Take over a partition; its nodes with pending rows are loaded at once."""
        if partition in self.stores:
            raise StateError(f"partition {partition} is open already; drop it first")
        self.stores[partition] = store
        self._in_flight[partition] = deque()
        self.begin_partition(partition)
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
        partition: NodePartitions,
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
        """Half-edges become rows. Returns `new`, `behind` and `differs` of `engine.Appended`, ?[n] each."""
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
        partition: NodePartitions,
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
        """Peer embeddings of one layer enter their rows; returns how many were new."""
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
        self, partition: NodePartitions, node: NDArray[np.bytes_], vectors: NDArray[np.float32], now: float
    ) -> None:
        """Nodes S[n] have these own features from now on, f4[n, F]."""
        nodes = self.nodes_of(partition, node, now)
        self.features[nodes] = vectors
        rows.mark_features(self.t, nodes)

    def retain(self, nodes: NDArray[np.int32]) -> None:
        """Drop the rows of these nodes that no query can reach any more."""
        self.reserve_freed()
        rows.retain(self.t, nodes, self.layout.candidates, 2 * self.layout.candidates)

    def finish(self, slots: NDArray[np.int32], nodes: NDArray[np.int32]) -> None:
        """The embeddings of the rows in these slots have left; `retain` their nodes."""
        self.reserve_freed()
        rows.finish(self.t, slots, nodes, self.layout.candidates, 2 * self.layout.candidates)

    # What goes out

    def take_changes(self, partition: int) -> list[Change]:
        """Keys and values that differ from the store: deletions, rows, peer embeddings, node records, features, pending
        marks.

        Each change is told once. Its node stays in memory until it is `committed`, as its store is behind.
        """
        self.store_of(partition)
        changes, nodes = take_changes(self, partition)
        if changes:
            self._in_flight[partition].append(nodes)
        return changes

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

    def nodes_of(self, partition: NodePartitions, node: NDArray[np.bytes_], now: float) -> NDArray[np.int32]:
        """Places of nodes S[n] in the arena, loaded or made where they are not there: [n]."""
        self._tick += 1
        self.lookups += len(node)
        self.evict(0)
        get = self._places.get
        keys = node.tolist()
        places = [get(key, -1) for key in keys]
        found, are_absent = np.array(places, np.int32), -1 in places
        # Before anything is loaded, so that nothing of this batch is evicted for it.
        self.t.nodes["used_at"][found[found >= 0] if are_absent else found] = self._tick
        if are_absent:
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
        self.begin_nodes(places, keys, partition, self._tick)
        self._places.update(zip(keys, places.tolist(), strict=True))
        return places

    # The bound

    def used_bytes(self) -> int:
        """What nodes and rows in memory take, as `cache_bytes` counts it."""
        return self.rows_in_use * self.slot_bytes + len(self._places) * self.node_bytes

    def evict(self, slots: int) -> None:
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
