"""Pending rows that are ready go up a layer: they are chosen, computed, and told to their peers, or leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import selection
from stream_tgat.engine.alerting import alerts_of
from stream_tgat.engine.layers import Layers
from stream_tgat.engine.values import (
    AlertPolicy,
    Bytes,
    Computed,
    FinalEmbeddings,
    Floats,
    Integers,
    PeerEmbeddings,
    ThresholdCrossing,
    Times,
)
from stream_tgat.storage.pending import reach

#: Batches of rows, the oldest, that are looked through for what is ready: a pass costs the same, however many wait.
_DUE_BATCHES = 4


class _Queries(NamedTuple):
    """Pending rows that compute a layer.

    late: their half-edges came behind   origins: of their half-edges   names: the nodes' keys, their peers' and the
    interaction ids   versions: the lowest of what went into their own lower layers   states: these layers side by side,
    layer l from column columns[l] on
    """

    slots: NDArray[np.int32]  # [R]
    nodes: NDArray[np.int32]  # [R]
    partitions: NDArray[np.int32]  # [R]
    times: Times  # [R]
    sides: NDArray[np.uint8]  # [R]
    late: NDArray[np.bool_]  # [R]
    origins: Integers  # [R]
    names: Bytes  # [3, R]
    versions: Integers  # [R]
    states: Floats  # [R, Σw]
    columns: Sequence[int]

    def own(self, layer: int) -> list[Floats]:
        """h^(0 … layer-1), each [R, w]."""
        return [self.states[:, begin:end] for begin, end in islice(pairwise(self.columns), layer)]


class ReadyRows:
    """Computes what is ready with one model. alerts: when its heads alert"""

    def __init__(self, layers: Layers, alerts: AlertPolicy) -> None:
        self.layers = layers
        self.alerts = alerts
        self._arena = layers.arena
        self._config = layers.config
        self._columns = np.cumsum((0, *self._arena.layout.state_widths)).tolist()
        self._sampling = (self._config.neighbours, self._config.candidates, self._config.sampling == "uniform")
        # So many rows are looked through instead, if that is more: most of them wait for peer embeddings.
        self._due = 0
        self.nothing = Computed([], self._leave(np.empty(0, np.int64))[0])

    def compute(self, levels: Times, limit: int, waited_since: float) -> Computed:
        """One pass over layers 0..L of at most `limit` rows each, oldest first.

        levels: f8[partitions], up to which time each may compute   waited_since: rows received before this go on
        without the peer embeddings that have not come
        """
        latest = levels.max(initial=-np.inf)
        while True:
            due = max(self._due, _DUE_BATCHES * limit)
            is_more = reach(self._arena.t, latest, due)
            found = self._pass(levels, limit, waited_since)
            if not is_more:
                self._due = 0
                return found
            if found.is_cut:
                return found
            # Much of what is due waits for peer embeddings, and what comes behind it may not.
            self._due = 2 * due
            if found.rows:
                return replace(found, is_cut=True)

    def _pass(self, levels: Times, limit: int, waited_since: float) -> Computed:
        """What is ready of the rows that are due, layer after layer."""
        peer_embeddings: list[PeerEmbeddings] = []
        forced = stale = rows = 0
        is_cut = False
        for layer in range(self._arena.first_layer, self._config.layers):
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
        places = self._choose(self._config.layers, np.nextafter(levels, -np.inf), limit, waited_since)
        if not len(places):
            return Computed(peer_embeddings, self.nothing.embeddings, [], forced, stale, rows, is_cut)
        is_cut |= len(places) == limit
        embeddings, alerts, short, old = self._leave(places)
        return Computed(peer_embeddings, embeddings, alerts, forced + short, stale + old, rows + len(places), is_cut)

    def _choose(self, layer: int, levels: Times, limit: int, waited_since: float) -> Integers:
        """Pending places that compute `layer` now: at most `limit`, in their order."""
        needs_peer_embeddings = layer > 0 and self._arena.layout.state_widths[layer - 1] > 0
        leaves = layer == self._config.layers
        return selection.choose(
            self._arena.t, layer, levels, limit, waited_since, needs_peer_embeddings, leaves, *self._sampling
        )

    def _climb(self, layer: int, places: Integers) -> tuple[PeerEmbeddings, int, int]:
        """Layer 0 … L-1 of pending rows: kept as their own state, and a message for their peers.

        Returns with the message how many rows lacked peer embeddings, and how many rest on older weights.
        """
        asked, versions = self._queries(places), np.empty(len(places), np.int64)
        if layer == 0:
            # No weights made it, so what rests on it is no older for its age.
            state, read, short = self.layers.first(asked.nodes, asked.times), asked.versions, 0
        else:
            state, _, _, read, short = self.layers.layer(layer, asked.own(layer), asked.nodes, asked.times)
        column, version = self._columns[layer], self.layers.version
        stale = selection.advance(self._arena.t, places, read, state, column, version, versions)
        nodes, peers, interactions = asked.names
        message = PeerEmbeddings(
            node=peers,
            peer=nodes,
            interaction=interactions,
            side=1 - asked.sides,
            time=asked.times,
            version=versions,
            vectors=state,
            layer=layer,
        )
        return message, short, int(stale)

    def _leave(self, places: Integers) -> tuple[FinalEmbeddings, list[ThresholdCrossing], int, int]:
        """Layer L of pending rows: embeddings, predictions and alerts; the rows are done.

        Returns with them how many rows lacked peer embeddings, and how many rest on older weights.
        """
        arena, asked, version = self._arena, self._queries(places), self.layers.version
        slots, nodes, times = asked.slots, asked.nodes, asked.times
        heads = len(self._config.head_names)
        predictions = np.full((len(places), heads), np.nan, np.float32)
        alerts: list[ThresholdCrossing] = []
        h, short, stale = np.empty((0, self._config.hidden), np.float32), 0, 0
        if len(places):
            layer = self._config.layers
            h, weights, seen, read, short = self.layers.layer(layer, asked.own(layer), nodes, times)
            stale = int(np.count_nonzero(np.minimum(read, asked.versions) < version))
        keys, peers, interactions = asked.names
        embeddings = FinalEmbeddings(
            partition=asked.partitions,
            node=keys,
            peer=peers,
            interaction=interactions,
            side=asked.sides,
            time=times,
            late=asked.late,
            embedding=h,
            predictions=predictions,
            version=np.full(len(places), version),
            origin=asked.origins,
        )
        users = np.flatnonzero(asked.sides == 0) if heads else ()
        if len(users):
            edge = arena.t.payload[slots[users], : self._config.edge_features]
            predictions[users] = self.layers.predict(h[users], edge, nodes[users], times[users])
            alerts = alerts_of(arena, self._config.head_names, self.alerts, embeddings, slots, nodes, weights, seen)
        if len(places):
            arena.finish(slots, nodes)
        return embeddings, alerts, short, stale

    def _queries(self, places: Integers) -> _Queries:
        """What pending rows ask, and what is told of them with the answer."""
        count, layout = len(places), self._arena.layout
        slots, nodes, partitions = np.empty((3, count), np.int32)
        times, origins, versions = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        sides, late = np.empty(count, np.uint8), np.empty(count, np.bool_)
        states = np.empty((count, self._columns[-1]), np.float32)
        names = np.empty((3, count, layout.id_bytes), np.uint8)
        selection.take_queries(
            self._arena.t, places, slots, nodes, partitions, times, sides, late, origins, versions, states, names
        )
        called = names.view(layout.name)[..., 0]
        return _Queries(slots, nodes, partitions, times, sides, late, origins, called, versions, states, self._columns)
