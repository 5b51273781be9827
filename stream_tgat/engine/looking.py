"""A look at nodes at given times, as questions ask for it: the embedding and what it rests on. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import selection
from stream_tgat.engine.layers import Layer, Layers
from stream_tgat.engine.values import Bytes, Floats, Integers, LatestNodes, Times
from stream_tgat.graph.pairs import RECURRENCE_WIDTH, recurrence
from stream_tgat.storage.arena import Arena
from stream_tgat.storage.layout import LATE, PLACEHOLDER


@dataclass(frozen=True)
class Past:
    """The rows kept of one node before a time, oldest first.

    weight: attention in the last layer, mean over its heads; 0 where a row was not looked at
    """

    interaction: Bytes  # S[n]
    peer: Bytes  # S[n]
    side: NDArray[np.uint8]  # [n]
    time: Times  # [n]
    late: NDArray[np.bool_]  # [n]
    edge: Floats  # [n, E]
    weight: Floats  # [n]


@dataclass(frozen=True)
class AlertStates:
    """What each prediction head said of nodes' newest embedded rows: f8[B, heads] each.

    NaN and minus infinity where it has said nothing yet, or has not alerted
    """

    probability: Times
    at: Times
    alerted: Times


class Look:
    """B nodes, each at a time. It holds until the engine is used again: read what is needed at once.

    embedding: [B, D]   time: f8[B]   degree: [B], interactions before it   last: f8[B], the newest, NaN for none
    """

    def __init__(self, layers: Layers, places: NDArray[np.int32], times: Times, last_layer: Layer, short: int) -> None:
        """places: of the nodes in the arena, i4[B]   short: how many lacked peer embeddings, in all layers together."""
        self._layers, self._arena, self._config = layers, layers.arena, layers.config
        self._places, self._short = places, short
        self._weights, self._slots = last_layer.weights.mean(1), last_layer.slots
        self.time, self.embedding = times, last_layer.h
        self.degree, self.last = looked_back(self._arena, places, times)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """Whether a node would look at rows that are no longer kept, as the time asked about is long ago: [B]."""
        evicted = self._arena.t.nodes["evicted"][self._places].astype(np.int64)
        visible = self.degree - evicted
        config = self._config
        needed = config.neighbours if config.sampling == "recent" else config.candidates
        return (evicted > 0) & (visible < max(needed, 5 * config.activity))

    @property
    def awaited(self) -> Integers:
        """How many neighbours each node cannot see yet, as their peer embeddings are missing: [B].

        The largest number of all layers.
        """
        result = np.zeros(len(self), np.int64)
        if not self._short:
            return result
        for layer, width in enumerate(self._arena.layout.state_widths):
            if width:
                all_seen = self._layers.look_back(self._places, self.time, -1)
                there = self._layers.look_back(self._places, self.time, layer)
                result = np.maximum(result, all_seen.counts - there.counts)
        return result

    @property
    def alerts(self) -> AlertStates:
        """What prediction heads said at the nodes' newest interactions, whatever the time asked about."""
        arena, places = self._arena, self._places
        return AlertStates(arena.probability[places], arena.newest[places], arena.alerted[places])

    def past(self, at: int, limit: int) -> Past:
        """Up to `limit` of the newest rows of node number `at` before its time."""
        t = self._arena.t
        record = t.nodes[self._places[at]]
        slots = t.order[record["block"] : record["block"] + record["count"]]
        kept = (t.rows["flags"][slots] & PLACEHOLDER == 0) & (t.rows["time"][slots] < self.time[at])
        slots = slots[kept][-limit:]
        weight_of = dict(zip(self._slots[at].tolist(), self._weights[at].tolist(), strict=True))
        # Padding repeats slot 0 with weight 0, after what was seen.
        for slot, weight in zip(self._slots[at].tolist(), self._weights[at].tolist(), strict=True):
            weight_of[slot] = max(weight_of[slot], weight)
        rows = t.rows[slots]
        return Past(
            interaction=self._arena.interactions_at(slots),
            peer=self._arena.peers_at(slots),
            side=rows["side"].copy(),
            time=rows["time"].copy(),
            late=rows["flags"] & LATE != 0,
            edge=t.payload[slots, : self._arena.layout.edge_width],
            weight=np.array([weight_of.get(slot, 0.0) for slot in slots.tolist()], np.float32),
        )

    def meetings(self, which: Integers, peers: Bytes) -> Floats:
        """Recurrence of peers S[P] in the rows of the nodes `which` [P], as pair features have it: [P, 3]."""
        if not len(which):
            return np.empty((0, RECURRENCE_WIDTH), np.float32)
        arena, t = self._arena, self._arena.t
        seen = self._layers.look_back(self._places[which], self.time[which], -1, newest=self._config.candidates)
        slots, mask = seen.slots, np.arange(seen.slots.shape[1]) < seen.counts[:, None]
        met = (t.peers[slots] == arena.layout.words(peers)[:, None, :]).all(-1)
        # Rows come newest first, and are asked for oldest first, so that the newest stands last.
        found = recurrence(
            self.time[which],
            met[:, ::-1].astype(np.int64),
            t.rows["time"][slots][:, ::-1],
            mask[:, ::-1],
            np.ones((len(which), 1), np.int64),
        )
        return found[:, 0]

    def predictions(self, which: Integers, edge: Floats) -> Floats:
        """Probabilities [Q, heads], were nodes `which` [Q] to interact at their times with these features [Q, E]."""
        return self._layers.predict(self.embedding[which], edge, self._places[which], self.time[which])


def look_at(layers: Layers, places: NDArray[np.int32], times: Times) -> Look:
    """A look at nodes, by their places in the arena i4[B], at times f8[B]."""
    own = [layers.first(places, times) if layers.arena.first_layer == 0 else np.empty((len(places), 0), np.float32)]
    short = 0
    for layer in range(1, layers.config.layers + 1):
        found = layers.layer(layer, own, places, times)
        own.append(found.h)
        short += found.short
    return Look(layers, places, times, found, short)


def latest_of(layers: Layers, places: NDArray[np.int32]) -> LatestNodes:
    """Nodes, by their places in the arena i4[n], just after their newest rows; those without rows are left out."""
    arena = layers.arena
    degree, last = looked_back(arena, places, np.full(len(places), np.inf))
    places, degree, last = places[degree > 0], degree[degree > 0], last[degree > 0]
    look = look_at(layers, places, np.nextafter(last, np.inf))
    return LatestNodes(
        node=arena.keys_of(places),
        time=last,
        degree=degree,
        embedding=look.embedding,
        probability=look.alerts.probability,
        is_complete=look.awaited == 0,
        version=np.full(len(places), layers.version),
    )


def resolved(
    arena: Arena, places: NDArray[np.int32], times: Times, now: Times, together: Sequence[slice] = ()
) -> Times:
    """The times [B]; where one is NaN, `now` [B], or just after the node's newest row if that is later.

    together: slices of the nodes whose NaN is one time, the latest of theirs
    """
    last = looked_back(arena, places, np.full(len(places), np.inf))[1]
    after = np.nextafter(np.where(np.isnan(last), -np.inf, last), np.inf)
    is_open = np.isnan(times)
    found = np.where(is_open, np.maximum(now, after), times)
    for part in together:
        found[part][is_open[part]] = found[part][is_open[part]].max(initial=-np.inf)
    return found


def looked_back(arena: Arena, places: NDArray[np.int32], times: Times) -> tuple[Integers, Times]:
    """Degree [B] and time of the newest row f8[B], both strictly before each time."""
    degree, last, fifth_last = np.empty(len(places), np.int64), np.empty(len(places)), np.empty(len(places))
    selection.look_at_activity(arena.t, places, times, degree, last, fifth_last)
    return degree, last
