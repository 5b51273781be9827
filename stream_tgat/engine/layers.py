"""The layers of one model over the rows in the arena, for any nodes at any times. It changes nothing there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import selection
from stream_tgat.engine.forward import Forward
from stream_tgat.engine.values import Floats, Integers, Times
from stream_tgat.graph.activity import activity
from stream_tgat.graph.decayed import compressed
from stream_tgat.storage.arena import Arena

if TYPE_CHECKING:
    from stream_tgat.nn.model import Model


class Seen(NamedTuple):
    """The past interactions that R targets look at, the newest first: of each target the first `counts` of K.

    versions: the lowest of the peer embeddings that are read   short: how many targets lack a peer embedding
    """

    slots: NDArray[np.int32]  # [R, K]
    spans: Times  # [R, K], t − t_i
    counts: NDArray[np.int32]  # [R]
    versions: Integers  # [R]
    short: int


class Layer(NamedTuple):
    """One layer of R targets, and what they looked at for it.

    versions: the lowest of the weights and of the peer embeddings read, in which weights had a say
    short: how many targets lacked a peer embedding
    """

    h: Floats  # [R, D]
    weights: Floats  # [R, H, K], attention
    slots: NDArray[np.int32]  # [R, K]
    versions: Integers  # [R]
    short: int


class Layers:
    """A model, the version of its weights, and the rows that it reads."""

    def __init__(self, model: Model, version: int, arena: Arena, device: str) -> None:
        self.config = model.config
        self.version = version
        self.arena = arena
        self.forward = Forward(model, arena, device)

    def first(self, nodes: NDArray[np.int32], times: Times) -> Floats:
        """h^(0) [R, w_0] of nodes (places in the arena) at times; w_0 is 0 where the model has no layer-0 state."""
        features: Floats = self.arena.features[nodes]
        if not self.config.activity:
            return features
        degree, last, fifth_last = np.empty(len(nodes), np.int64), np.empty(len(nodes)), np.empty(len(nodes))
        selection.look_at_activity(self.arena.t, nodes, times, degree, last, fifth_last)
        return np.concatenate([features, activity(times, degree, last, fifth_last)], 1)

    def layer(self, layer: int, own: Sequence[Floats], nodes: NDArray[np.int32], times: Times) -> Layer:
        """h^(layer) [R, D] of nodes at times. own: their h^(0 … layer-1), each [R, w]"""
        seen = self.look_back(nodes, times, layer - 1 if self.arena.layout.state_widths[layer - 1] else -1)
        h, weights = self.forward.layer(layer, own, seen.slots, seen.spans, seen.counts)
        versions = np.minimum(seen.versions, self.version) if layer > 1 else np.full(len(nodes), self.version)
        return Layer(h, weights, seen.slots, versions, seen.short)

    def look_back(
        self, nodes: NDArray[np.int32], times: Times, peer_embedding_layer: int, newest: int | None = None
    ) -> Seen:
        """What nodes at times look at.

        peer_embedding_layer: rows without the peer embedding of this layer are left out; −1 for none
        newest: so many of the newest, instead of what the model samples
        """
        config, count = self.config, len(nodes)
        width = newest or config.neighbours
        slots, spans = np.empty((count, width), np.int32), np.empty((count, width))
        counts, versions = np.empty(count, np.int32), np.empty(count, np.int64)
        uniform = newest is None and config.sampling == "uniform"
        short = selection.look_back(
            self.arena.t,
            nodes,
            times,
            peer_embedding_layer,
            width,
            config.candidates,
            uniform,
            slots,
            spans,
            counts,
            versions,
        )
        return Seen(slots, spans, counts, versions, int(short))

    def predict(self, h: Floats, edge: Floats, nodes: NDArray[np.int32], times: Times) -> Floats:
        """Calibrated probabilities [R, heads] from embeddings [R, D] of nodes at times, and edge features [R, E]."""
        if not self.config.decay_s:
            return self.forward.predict(h, edge)
        sums = np.empty((len(nodes), self.config.event_width - self.config.edge_features))
        selection.look_at_sums(self.arena.t, nodes, times, sums)
        return self.forward.predict(h, np.concatenate([edge, compressed(sums)], 1))
