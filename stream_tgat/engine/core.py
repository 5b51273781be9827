"""The engine: rows and peer embeddings in, embeddings and messages out, for all partitions of one worker."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import selection
from stream_tgat.engine.crossings import crossings
from stream_tgat.engine.forward import Forward
from stream_tgat.engine.looking import Look, looked_back, resolved
from stream_tgat.engine.values import (
    Alert,
    AlertPolicy,
    Appended,
    Because,
    Bytes,
    Computed,
    Embeddings,
    Floats,
    HalfEdges,
    Integers,
    Latest,
    PeerEmbeddings,
    StoredNeighbourhood,
    Times,
)
from stream_tgat.errors import ModelError
from stream_tgat.graph.activity import activity
from stream_tgat.graph.decayed import compressed
from stream_tgat.storage import tables
from stream_tgat.storage.arena import Arena, Owners
from stream_tgat.storage.layout import LATE, NODE_PREFIX, PLACEHOLDER, Layout
from stream_tgat.storage.pending import reach
from stream_tgat.storage.stores import Store
from stream_tgat.storage.tables import plain

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model

#: How many past interactions an alert names.
REASONS = 5
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


@dataclass(frozen=True)
class _Queries:
    """Pending rows that compute a layer.

    versions: the lowest of what went into their own lower layers   states: these layers side by side, layer l from
    column columns[l] on
    """

    slots: NDArray[np.int32]  # [R]
    nodes: NDArray[np.int32]  # [R]
    times: Times  # [R]
    versions: Integers  # [R]
    states: Floats  # [R, Σw]
    columns: Sequence[int]

    def own(self, layer: int) -> list[Floats]:
        """h^(0 … layer-1), each [R, w]."""
        return [self.states[:, begin:end] for begin, end in islice(pairwise(self.columns), layer)]


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
        self.version = version
        self.max_wait_s = max_wait_s
        self.alerts = _checked(alerts, config.head_names)
        layout = Layout(
            id_bytes=id_bytes,
            edge_width=config.edge_features,
            feature_width=config.node_features,
            state_widths=tuple(model.state_widths),
            candidates=config.candidates,
            prediction_heads=config.head_names,
            decay_s=config.decay_s,
        )
        self.config = config
        self._sampling = (config.neighbours, config.candidates, config.sampling == "uniform")
        self._arena = Arena(
            layout,
            cache_bytes,
            first_layer=0 if layout.state_widths[0] else 1,
            looks_back=0 if config.activity else 1,
        )
        self._device = device
        self._forward = Forward(model, self._arena, device)
        self._columns = np.cumsum((0, *layout.state_widths)).tolist()
        self._last_backlog = -np.inf
        self._nothing = Computed([], self._leave(np.empty(0, np.int64))[0])

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
        policy = _checked(alerts, self.config.head_names)
        forward = Forward(model, self._arena, self._device)
        self.config, self.version, self.alerts, self._forward = model.config, version, policy, forward
        selection.start_again(self._arena.t)

    def append(self, partition: Owners, half_edges: HalfEdges, now: float | None = None) -> Appended:
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

    def fill(self, partition: Owners, peer_embeddings: PeerEmbeddings, now: float | None = None) -> int:
        """Peer embeddings enter their rows, or make placeholders. Repeats and older versions count for nothing. Returns
        how many did.

        partition: of the recipients, one for all or i4[n]
        """
        m, expected = peer_embeddings, (len(peer_embeddings), self._arena.layout.state_widths[peer_embeddings.layer])
        if m.vectors.shape != expected:
            raise ValueError(f"peer embeddings of layer {m.layer} are {m.vectors.shape}; expected {expected}")
        return self._arena.fill(
            partition, m.node, m.peer, m.interaction, m.side, m.time, m.version, m.vectors, m.layer, _clock(now)
        )

    def set_features(self, partition: Owners, node: Bytes, vectors: Floats) -> None:
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
        if not self._arena.t.counters[tables.PENDING_COUNT]:
            return self._nothing
        levels = np.full(max(watermarks, default=-1) + 1, -np.inf)
        for partition, watermark in watermarks.items():
            levels[partition] = watermark
        reach(self._arena.t, levels.max(initial=-np.inf))
        waited_since = self._waited_since(_clock(now), backlog)
        peer_embeddings: list[PeerEmbeddings] = []
        forced = stale = rows = 0
        is_cut = False
        for layer in range(self._arena.first_layer, self.config.layers):
            places = self._choose(layer, levels, limit, waited_since)
            if len(places):
                message, short, old = self._climb(layer, places)
                peer_embeddings.append(message)
                forced += short
                stale += old
                rows += len(places)
                is_cut |= len(places) == limit
        # An embedding leaves when the watermark is beyond its time: rows of the same time may still come, which it does
        # not see, but the node's embeddings, and with them its alerts, leave in the order of all of them.
        places = self._choose(self.config.layers, np.nextafter(levels, -np.inf), limit, waited_since)
        if not len(places):
            return Computed(peer_embeddings, self._nothing.embeddings, [], forced, stale, rows, is_cut)
        is_cut |= len(places) == limit
        embeddings, alerts, short, old = self._leave(places)
        return Computed(peer_embeddings, embeddings, alerts, forced + short, stale + old, rows + len(places), is_cut)

    def take_changes(self, partition: int) -> list[tuple[bytes, bytes | None]]:
        """What has changed since the last call: keys with their values, None for deleted; to be stored in this order.

        The engine may go on at once; it needs to know by `committed` when they are stored.
        """
        return self._arena.take_changes(partition)

    def changes_bytes(self, partition: int) -> int:
        """Upper estimate of the bytes of the next changes, without building them."""
        return self._arena.changes_bytes(partition)

    def committed(self, partition: int) -> None:
        """The changes taken first are stored, in the order in which they were taken. Not for an empty list."""
        self._arena.committed(partition)

    def kept_peer_embeddings(self, partition: int, at_once: int = 1024) -> Iterator[PeerEmbeddings]:
        """The peer embeddings that weights have made (layers 1 … L-1) of all rows that the nodes of a partition keep.

        Of what is saved: call `save` before.   at_once: nodes that are brought into memory together
        """
        arena, layout = self._arena, self._arena.layout
        records = arena.store_of(partition).scan(NODE_PREFIX)
        while keys := [key[1:].rstrip(b"\0") for key, _ in islice(records, at_once)]:
            nodes = arena.nodes_of(partition, np.array(keys), _clock(None))
            slots = selection.slots_of(arena.t, nodes)
            rows = arena.t.rows[slots]
            for layer in range(1, self.config.layers):
                there = np.flatnonzero((rows["flags"] & PLACEHOLDER == 0) & (rows["version"][:, layer] >= 0))
                offset = layout.peer_embedding_offsets[layer]
                yield PeerEmbeddings(
                    node=arena.keys_of(rows["node"][there]),
                    peer=arena.peers_at(slots[there]),
                    interaction=arena.interactions_at(slots[there]),
                    side=plain(rows["side"][there], np.uint8),
                    time=plain(rows["time"][there], np.float64),
                    version=plain(rows["version"][there, layer], np.int64),
                    vectors=arena.t.payload[slots[there], offset : offset + layout.state_widths[layer]],
                    layer=layer,
                )

    def save(self, partition: int) -> None:
        """Take the changes of a partition and write them to its store: for those with no log beside the store."""
        self._arena.save(partition)

    def pending(self) -> int:
        """Rows whose own embedding has not left yet."""
        return int(self._arena.t.counters[tables.PENDING_COUNT])

    def waiting(self, partition: int, watermark: float) -> int:
        """Those of a partition whose time its watermark has not reached."""
        pending = self._arena.t.pending[: self.pending()]
        return int(np.count_nonzero((pending["partition"] == partition) & (pending["time"] > watermark)))

    @property
    def lookups(self) -> tuple[int, int]:
        """Nodes that were looked up in memory, and those of them that were not there."""
        return self._arena.lookups, self._arena.misses

    def used_bytes(self) -> int:
        """What is in memory, as `cache_bytes` counts it."""
        return self._arena.used_bytes()

    def neighbourhood(self, partition: int, node: bytes) -> StoredNeighbourhood:
        """The rows kept of `node`, in order."""
        arena = self._arena
        place = int(arena.nodes_of(partition, np.array([node]), _clock(None))[0])
        t, layout = arena.t, arena.layout
        record = t.nodes[place]
        slots = t.order[record["block"] : record["block"] + record["count"]]
        slots = slots[t.rows["flags"][slots] & PLACEHOLDER == 0]
        rows, payload = t.rows[slots], t.payload[slots]
        versions = rows["version"][:, : len(layout.state_widths)].copy()
        peer_embeddings = tuple(
            np.where(versions[:, layer, None] >= 0, payload[:, offset : offset + width], np.float32(0))
            for layer, (offset, width) in enumerate(
                zip(layout.peer_embedding_offsets, layout.state_widths, strict=True)
            )
        )
        return StoredNeighbourhood(
            interaction=arena.interactions_at(slots),
            peer=arena.peers_at(slots),
            side=rows["side"].copy(),
            time=rows["time"].copy(),
            late=rows["flags"] & LATE != 0,
            edge=payload[:, : layout.edge_width],
            peer_embeddings=peer_embeddings,
            versions=versions,
            done=rows["flags"] & tables.DONE != 0,
            degree=int(record["evicted"]) + len(slots),
        )

    def embed(self, partition: int, nodes: Bytes, times: Times) -> Floats:
        """Embeddings [B, D] of nodes S[B] at times f8[B] from what is there now; changes nothing."""
        return self.look(partition, nodes, times).embedding

    def look(self, partition: Owners, nodes: Bytes, times: Times, now: Times | None = None) -> Look:
        """As `embed`, with what it rests on.

        partition: of these nodes, one for all or i4[B]   now: f8[B], for times that are NaN; a node that has a row
        not before it is looked at just after its newest one
        """
        places = self._arena.nodes_of(partition, nodes, _clock(None))
        times = plain(times, np.float64)
        return self._look_at(places, times if now is None else resolved(self._arena, places, times, now))

    def latest_of(self, partition: Owners, nodes: Bytes) -> Latest:
        """Those of the nodes S[n] that have a row, just after their newest one; changes nothing.

        partition: of these nodes, one for all or i4[n]
        """
        return self._latest(self._arena.nodes_of(partition, nodes, _clock(None)))

    def latest_of_changes(self, partitions: Collection[int]) -> Latest:
        """As `latest_of`, of all nodes of which changes were taken last from these partitions."""
        none = np.empty(0, np.int32)
        return self._latest(np.concatenate([none, *(self._arena.taken_last(each) for each in partitions)]))

    def _latest(self, places: NDArray[np.int32]) -> Latest:
        degree, last = looked_back(self._arena, places, np.full(len(places), np.inf))
        places, degree, last = places[degree > 0], degree[degree > 0], last[degree > 0]
        look = self._look_at(places, np.nextafter(last, np.inf))
        return Latest(
            node=self._arena.keys_of(places),
            time=last,
            degree=degree,
            embedding=look.embedding,
            probability=look.alerts.probability,
            is_complete=look.awaited == 0,
            version=np.full(len(places), self.version),
        )

    def _look_at(self, places: NDArray[np.int32], times: Times) -> Look:
        arena = self._arena
        own = [self._layer0(places, times) if arena.first_layer == 0 else np.empty((len(places), 0), np.float32)]
        short = 0
        for layer in range(1, self.config.layers + 1):
            h, weights, slots, _, lacking = self._layer(layer, own, places, times)
            own.append(h)
            short += lacking
        return Look(arena, self._forward, self.config, places, times, own[-1], weights.mean(1), slots, short)

    # One layer of one pass

    def _waited_since(self, now: float, backlog: bool) -> float:
        """Rows received before this have waited for max_wait_s without a backlog."""
        if backlog:
            self._last_backlog = now
        if self.max_wait_s is None or now - self._last_backlog <= self.max_wait_s:
            return -np.inf
        return now - self.max_wait_s

    def _choose(self, layer: int, levels: Times, limit: int, waited_since: float) -> Integers:
        """Pending places that compute `layer` now: at most `limit`, in their order."""
        needs_peer_embeddings = layer > 0 and self._arena.layout.state_widths[layer - 1] > 0
        leaves = layer == self.config.layers
        return selection.choose(
            self._arena.t, layer, levels, limit, waited_since, needs_peer_embeddings, leaves, *self._sampling
        )

    def _climb(self, layer: int, places: Integers) -> tuple[PeerEmbeddings, int, int]:
        """Layer 0 … L-1 of pending rows: kept as their own state, and a message for their peers.

        Returns with the message how many rows lacked peer embeddings, and how many rest on older weights.
        """
        arena, asked = self._arena, self._queries(places)
        if layer == 0:
            # No weights made it, so what rests on it is no older for its age.
            state, short, lowest = self._layer0(asked.nodes, asked.times), 0, asked.versions
        else:
            state, _, _, read, short = self._layer(layer, asked.own(layer), asked.nodes, asked.times)
            lowest = np.minimum(read, asked.versions)
        selection.advance(arena.t, places, lowest, state, self._columns[layer])
        versions = np.minimum(lowest, self.version)
        nodes, peers, interactions = arena.names_at(asked.slots)
        message = PeerEmbeddings(
            node=peers,
            peer=nodes,
            interaction=interactions,
            side=1 - arena.t.rows["side"][asked.slots],
            time=asked.times,
            version=versions,
            vectors=state,
            layer=layer,
        )
        return message, short, int(np.count_nonzero(versions < self.version))

    def _leave(self, places: Integers) -> tuple[Embeddings, list[Alert], int, int]:
        """Layer L of pending rows: embeddings, predictions and alerts; the rows are done.

        Returns with them how many rows lacked peer embeddings, and how many rest on older weights.
        """
        arena, t, asked = self._arena, self._arena.t, self._queries(places)
        slots, nodes, times = asked.slots, asked.nodes, asked.times
        rows = t.rows[slots]
        side = plain(rows["side"], np.uint8)
        heads = len(self.config.head_names)
        predictions = np.full((len(places), heads), np.nan, np.float32)
        alerts: list[Alert] = []
        h, short, stale = np.empty((0, self.config.hidden), np.float32), 0, 0
        if len(places):
            layer = self.config.layers
            h, weights, seen, read, short = self._layer(layer, asked.own(layer), nodes, times)
            stale = int(np.count_nonzero(np.minimum(read, asked.versions) < self.version))
        keys, peers, interactions = arena.names_at(slots)
        embeddings = Embeddings(
            partition=t.nodes["partition"][nodes],
            node=keys,
            peer=peers,
            interaction=interactions,
            side=side,
            time=times,
            late=rows["flags"] & LATE != 0,
            embedding=h,
            predictions=predictions,
            version=np.full(len(places), self.version),
            origin=t.origins[slots],
        )
        users = np.flatnonzero(side == 0)
        if heads and len(users):
            event = self._event_inputs(slots[users], nodes[users], times[users])
            predictions[users] = self._forward.predict(h[users], event)
            alerts = self._alert(embeddings, slots, nodes, weights, seen)
        if len(places):
            selection.finish(t, slots)
            arena.retain(nodes)
        return embeddings, alerts, short, stale

    def _queries(self, places: Integers) -> _Queries:
        """What pending rows ask."""
        t, count = self._arena.t, len(places)
        asked = _Queries(
            slots=np.empty(count, np.int32),
            nodes=np.empty(count, np.int32),
            times=np.empty(count),
            versions=np.empty(count, np.int64),
            states=np.empty((count, self._columns[-1]), np.float32),
            columns=self._columns,
        )
        selection.take_queries(t, places, asked.slots, asked.nodes, asked.times, asked.versions, asked.states)
        return asked

    def _layer0(self, nodes: NDArray[np.int32], times: Times) -> Floats:
        """h^(0) [R, w_0] of nodes (places in the arena) at times."""
        features: Floats = self._arena.features[nodes]
        if not self.config.activity:
            return features
        degree, last, fifth_last = np.empty(len(nodes), np.int64), np.empty(len(nodes)), np.empty(len(nodes))
        selection.look_at_activity(self._arena.t, nodes, times, degree, last, fifth_last)
        return np.concatenate([features, activity(times, degree, last, fifth_last)], 1)

    def _event_inputs(self, slots: NDArray[np.int32], nodes: NDArray[np.int32], times: Times) -> Floats:
        """What heads read beside the embedding: edge features of rows ‖ decayed sums of nodes at times, [R, E + S]."""
        edge: Floats = self._arena.t.payload[slots, : self.config.edge_features]
        if not self.config.decay_s:
            return edge
        sums = np.empty((len(nodes), self.config.event_width - self.config.edge_features))
        selection.look_at_sums(self._arena.t, nodes, times, sums)
        return np.concatenate([edge, compressed(sums)], 1)

    def _layer(
        self, layer: int, own: list[Floats], nodes: NDArray[np.int32], times: Times
    ) -> tuple[Floats, Floats, NDArray[np.int32], Integers, int]:
        """h^(layer) [R, D], attention [R, H, K], slots seen i4[R, K], versions [R], how many lacked peer embeddings.

        versions: the lowest of the weights and of the peer embeddings read, in which weights had a say
        """
        count, neighbours = len(nodes), self.config.neighbours
        slots, spans = np.empty((count, neighbours), np.int32), np.empty((count, neighbours))
        counts, versions = np.empty(count, np.int32), np.empty(count, np.int64)
        peer_embedding_layer = layer - 1 if self._arena.layout.state_widths[layer - 1] else -1
        short = selection.look_back(
            self._arena.t, nodes, times, peer_embedding_layer, *self._sampling, slots, spans, counts, versions
        )
        h, weights = self._forward.layer(layer, own, slots, spans, counts)
        versions = np.minimum(versions, self.version) if layer > 1 else np.full(count, self.version)
        return h, weights, slots, versions, int(short)

    def _alert(
        self,
        embeddings: Embeddings,
        slots: NDArray[np.int32],
        nodes: NDArray[np.int32],
        weights: Floats,
        seen: NDArray[np.int32],
    ) -> list[Alert]:
        """Alerts of embeddings in order; moves each node's alert state on."""
        arena = self._arena
        thresholds, cooldowns = np.array(self.alerts.thresholds), np.array(self.alerts.cooldowns_s)
        crossed = np.empty(embeddings.predictions.shape, np.bool_)
        crossings(
            arena.t,
            embeddings.predictions,
            slots,
            nodes,
            embeddings.time,
            thresholds,
            cooldowns,
            arena.probability,
            arena.newest,
            arena.alerted,
            crossed,
        )
        return [
            Alert(
                node=bytes(embeddings.node[b]),
                peer=bytes(embeddings.peer[b]),
                interaction=bytes(embeddings.interaction[b]),
                head=self.config.head_names[head],
                probability=float(embeddings.predictions[b, head]),
                threshold=float(thresholds[head]),
                time=float(embeddings.time[b]),
                because=self._reasons(weights[b].mean(0), seen[b]),
                partition=int(embeddings.partition[b]),
                version=self.version,
                origin=int(embeddings.origin[b]),
            )
            for b, head in zip(*(k.tolist() for k in np.nonzero(crossed)), strict=True)
        ]

    def _reasons(self, weights: Floats, seen: NDArray[np.int32]) -> tuple[Because, ...]:
        """The past interactions with the largest weights [K] among the slots `seen` [K]."""
        largest = np.argsort(-weights, kind="stable")[:REASONS]
        largest = largest[weights[largest] > 0]
        slots = seen[largest]
        peers, interactions = self._arena.peers_at(slots).tolist(), self._arena.interactions_at(slots).tolist()
        times = self._arena.t.rows["time"][slots].tolist()
        return tuple(map(Because, peers, interactions, times, weights[largest].tolist()))


def _checked(alerts: AlertPolicy | None, heads: tuple[str, ...]) -> AlertPolicy:
    alerts = alerts or AlertPolicy((np.inf,) * len(heads), (0.0,) * len(heads))
    if not len(alerts.thresholds) == len(alerts.cooldowns_s) == len(heads):
        raise ValueError(f"the alert policy needs a threshold and a cooldown for each of {heads}")
    return alerts


def _clock(now: float | None) -> float:
    return time.monotonic() if now is None else now
