"""The engine: rows and peer embeddings in, embeddings and messages out, for all partitions of one worker."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stream_tgat.engine import selection
from stream_tgat.engine.alerting import policy_for
from stream_tgat.engine.layers import Layers
from stream_tgat.engine.looking import Look, latest_of, look_at, resolved
from stream_tgat.engine.ready import ReadyRows
from stream_tgat.engine.stored import kept_peer_embeddings
from stream_tgat.engine.values import (
    AlertPolicy,
    Appended,
    Bytes,
    Computed,
    Floats,
    HalfEdges,
    LatestNodes,
    PeerEmbeddings,
    Times,
)
from stream_tgat.errors import ModelError
from stream_tgat.storage import tables
from stream_tgat.storage.arena import Arena, NodePartitions
from stream_tgat.storage.layout import Layout
from stream_tgat.storage.stores import Store
from stream_tgat.storage.tables import plain

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model, ModelConfig

#: What rows, peer embeddings and the choice of neighbours depend on: weights can change, these stay as long as the
#: engine lives.
LASTING = (
    "layers",
    "neighbours",
    "candidates",
    "node_features",
    "activity",
    "edge_features",
    "hidden",
    "sampling",
    "head_names",
    "decay_s",
)


class Engine:
    """Computes what is ready over the partitions it has open, and says what must be stored.

    Per micro-batch: `append` and `fill` what came, `compute`, `take_changes` of each partition, hand the results on,
    store the changes and call `committed`; the next micro-batch may begin meanwhile. When any of that fails: `drop` the
    partition and `open` it again from what was stored. One thread at a time.
    """

    def __init__(
        self,
        model: Model,
        version: int,
        *,
        id_bytes: int = 40,
        cache_bytes: int = 1 << 30,
        alerts: AlertPolicy | None = None,
        max_wait_s: float | None = None,
        device: str = "cpu",
    ) -> None:
        """version: of the weights, stamped on all that they make.

        alerts: None for none.   max_wait_s: how long a row waits for peer embeddings before it goes on without; None
        for ever.
        """
        config = model.config
        policy = policy_for(config.head_names, alerts)
        self.max_wait_s = max_wait_s
        layout = Layout(
            id_bytes=id_bytes,
            edge_width=config.edge_features,
            feature_width=config.node_features,
            state_widths=tuple(model.state_widths),
            candidates=config.candidates,
            prediction_heads=config.head_names,
            decay_s=config.decay_s,
        )
        self._arena = Arena(
            layout,
            cache_bytes,
            first_layer=0 if layout.state_widths[0] else 1,
            looks_back=0 if config.activity else 1,
        )
        self._device = device
        self._layers = Layers(model, version, self._arena, device)
        self._ready = ReadyRows(self._layers, policy)
        self._last_backlog = -np.inf

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model that computes."""
        return self._layers.config

    @property
    def version(self) -> int:
        """The version of its weights."""
        return self._layers.version

    @property
    def alerts(self) -> AlertPolicy:
        """When its heads alert."""
        return self._ready.alerts

    def open(self, partition: int, store: Store, now: float | None = None) -> None:
        """Take over a partition whose state is in `store`; finds its pending rows."""
        self._arena.open(partition, store, _clock(now))

    def drop(self, partition: int) -> None:
        """Forget all memory of a partition, committed or not; what was stored stays in its store."""
        self._arena.drop(partition)

    def swap(self, model: Model, version: int, alerts: AlertPolicy | None = None) -> None:
        """Compute with other weights from now on, and stamp what they make with `version`.

        Rows keep the peer embeddings that they have: they are used as they are, what comes of them carries their
        version, and each such row is counted (`Computed.stale`). Pending rows compute their own lower layers again.
        alerts: thresholds that go with the weights; None for none. Each node's last probability stays, whichever
        weights said it.
        Raises ModelError, and changes nothing, if the rows that are there do not fit the model, or if the version is
        not newer: an older one would lose against the peer embeddings that newer weights have made.
        """
        unlike = [name for name in LASTING if getattr(model.config, name) != getattr(self.config, name)]
        if unlike:
            raise ModelError(f"model {version} has another {', '.join(unlike)} than the rows that it is to read")
        if version <= self.version:
            raise ModelError(f"model {version} cannot follow model {self.version}: versions only go up")
        policy = policy_for(model.config.head_names, alerts)
        self._layers = Layers(model, version, self._arena, self._device)
        self._ready = ReadyRows(self._layers, policy)
        selection.start_again(self._arena.t)

    def append(self, partition: NodePartitions, half_edges: HalfEdges, now: float | None = None) -> Appended:
        """Half-edges become rows. What agrees in interaction, time, node, side and peer is a repeat: nothing changes.

        Those of one node that came together, so that nothing can have been computed between them, are to be in order
        of time: each is compared with those before it.

        partition: of their nodes, one for all or i4[n]
        """
        h = half_edges
        if h.edge.shape != (len(h), self._arena.layout.edge_width):
            raise ValueError(f"edge features {h.edge.shape}; expected {(len(h), self._arena.layout.edge_width)}")
        return Appended(
            *self._arena.append(
                partition, h.node, h.peer, h.interaction, h.side, h.time, h.passed, h.edge, h.origin, _clock(now)
            )
        )

    def fill(self, partition: NodePartitions, peer_embeddings: PeerEmbeddings, now: float | None = None) -> int:
        """Peer embeddings enter their rows, or make placeholders where the rows have not come yet.

        Returns how many were new: repeats, and those of older versions than what is there, change nothing.
        partition: of the recipients, one for all or i4[n]
        """
        m, expected = peer_embeddings, (len(peer_embeddings), self._arena.layout.state_widths[peer_embeddings.layer])
        if m.vectors.shape != expected:
            raise ValueError(f"peer embeddings of layer {m.layer} are {m.vectors.shape}; expected {expected}")
        return self._arena.fill(
            partition, m.node, m.peer, m.interaction, m.side, m.time, m.version, m.vectors, m.layer, _clock(now)
        )

    def set_features(self, partition: NodePartitions, node: Bytes, vectors: Floats) -> None:
        """Own features of nodes, node S[n], vectors f4[n, F]; they hold from now on.

        partition: of these nodes, one for all or i4[n]
        """
        expected = (len(node), self._arena.layout.feature_width)
        if vectors.shape != expected:
            raise ValueError(f"node features are {vectors.shape}; expected {expected}")
        self._arena.set_features(partition, node, vectors, _clock(None))

    def compute(
        self, watermarks: Mapping[int, float], limit: int, *, now: float | None = None, backlog: bool = False
    ) -> Computed:
        """One pass over layers 0..L of at most `limit` rows each, oldest first.

        watermarks: smallest watermark of each open partition that may compute now.
        now: monotonic seconds (default: time.monotonic()); backlog: while there is one, max_wait does not run.
        """
        if not self.pending():
            return self._ready.nothing
        levels = np.full(max(watermarks, default=-1) + 1, -np.inf)
        for partition, watermark in watermarks.items():
            levels[partition] = watermark
        return self._ready.compute(levels, limit, self._waited_since(_clock(now), backlog))

    def take_changes(self, partition: int) -> list[tuple[bytes, bytes | None]]:
        """What has changed since the last call: keys with their values, None for deleted; to be stored in this order.

        The engine may go on at once; it needs to know by `committed` when they are stored.
        """
        return self._arena.take_changes(partition)

    def changes_bytes(self, partition: int) -> int:
        """Upper estimate of the bytes of the next changes, without building them."""
        return self._arena.changes_bytes(partition)

    def committed(self, partition: int) -> None:
        """Note that the oldest changes that were taken and not yet noted are stored.

        To be called once for each `take_changes` that returned something, in the same order.
        """
        self._arena.committed(partition)

    def kept_peer_embeddings(self, partition: int, at_once: int = 1024) -> Iterator[PeerEmbeddings]:
        """The peer embeddings of layers 1 … L-1, which weights have made, in the rows of a partition's nodes.

        Rows that are not in the store yet are left out: call `save` before.
        at_once: nodes that are brought into memory together
        """
        return kept_peer_embeddings(self._arena, partition, at_once)

    def save(self, partition: int) -> None:
        """Take the changes of a partition and write them to its store: for those with no log beside the store."""
        self._arena.save(partition)

    def pending(self) -> int:
        """How many rows there are whose own embedding has not left yet."""
        return int(self._arena.t.counters[tables.PENDING_COUNT])

    def waiting(self, partition: int, watermark: float) -> int:
        """How many pending rows of a partition are later than its watermark."""
        pending = self._arena.t.pending[: self.pending()]
        return int(np.count_nonzero((pending["partition"] == partition) & (pending["time"] > watermark)))

    @property
    def lookups(self) -> tuple[int, int]:
        """How many nodes were looked up in memory, and how many of them were not there."""
        return self._arena.lookups, self._arena.misses

    def used_bytes(self) -> int:
        """What is in memory, as `cache_bytes` counts it."""
        return self._arena.used_bytes()

    def embed(self, partition: int, nodes: Bytes, times: Times) -> Floats:
        """Embeddings [B, D] of nodes S[B] at times f8[B] from what is there now; changes nothing."""
        return self.look(partition, nodes, times).embedding

    def look(
        self,
        partition: NodePartitions,
        nodes: Bytes,
        times: Times,
        now: Times | None = None,
        together: Sequence[slice] = (),
    ) -> Look:
        """The embeddings of nodes S[B] at times f8[B] from what is there now, with what they rest on; changes nothing.

        partition: of these nodes, one for all or i4[B]
        now: f8[B], taken where a time is NaN; just after the node's newest row if that is later
        together: slices of the nodes whose NaN is one time, the latest of theirs
        """
        places = self._arena.nodes_of(partition, nodes, _clock(None))
        times = plain(times, np.float64)
        if now is not None:
            times = resolved(self._arena, places, times, now, together)
        return look_at(self._layers, places, times)

    def latest_of(self, partition: NodePartitions, nodes: Bytes) -> LatestNodes:
        """Nodes S[n] just after their newest rows; those without rows are left out. Changes nothing.

        partition: of these nodes, one for all or i4[n]
        """
        return latest_of(self._layers, self._arena.nodes_of(partition, nodes, _clock(None)))

    def latest_of_changes(self, partitions: Collection[int]) -> LatestNodes:
        """As `latest_of`, of the nodes whose changes were taken last from these partitions."""
        none = np.empty(0, np.int32)
        return latest_of(self._layers, np.concatenate([none, *(self._arena.taken_last(each) for each in partitions)]))

    def _waited_since(self, now: float, backlog: bool) -> float:
        """Rows received before this have waited for max_wait_s without a backlog."""
        if backlog:
            self._last_backlog = now
        if self.max_wait_s is None or now - self._last_backlog <= self.max_wait_s:
            return -np.inf
        return now - self.max_wait_s


def _clock(now: float | None) -> float:
    return time.monotonic() if now is None else now
