"""Embeddings of nodes at times from a history: the recursion of the paper, without repetition.

Each distinct (node, time) of a batch is computed once a layer, however often it is a neighbour. With dropout in
training, one distinct (node, time) of a batch therefore has one mask.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stream_tgat.graph.activity import activity
from stream_tgat.graph.adjacency import Neighbourhood, TemporalAdjacency
from stream_tgat.graph.sampling import Sampler, recent, uniform
from stream_tgat.nn.model import ACTIVITY_WIDTH, Model, ModelConfig
from stream_tgat.nn.training_kernels import NeighbourRows

CHUNK = 256
"""Targets at a time on a CPU, so that what a layer gathers for them stays in the cache."""

ROWS_CHUNK = 16_384
"""Targets at a time where neighbours stay where they are: it only bounds the memory."""


def embed(
    model: Model,
    history: TemporalAdjacency,
    node_features: Tensor | None,
    nodes: NDArray[np.int64],
    times: NDArray[np.float64],
    *,
    sampler: Sampler | None = None,
    edge_features: Tensor | None = None,
) -> Tensor:
    """h^(L) of each (node, time), from interactions strictly earlier.

    node_features: [N, F] on the model's device, or None where F = 0 or all of them are zero
    nodes: [B] int64   times: [B] float64, seconds
    sampler: by default the one that the model's configuration names
    edge_features: [n, E] on the model's device; by default the history's own, gathered on the host
    Returns [B, D] on the model's device and in its type, differentiable in the model's parameters.
    """
    source = _Source(model, history, node_features, edge_features)
    nodes, times, place = distinct_pairs(nodes, times)
    plan = _plan(model.config, history, sampler or configured_sampler(model.config), nodes, times)
    return _rows(_computed(source, plan)[0], place)


def attended(
    model: Model,
    history: TemporalAdjacency,
    node_features: Tensor | None,
    nodes: NDArray[np.int64],
    times: NDArray[np.float64],
    *,
    sampler: Sampler | None = None,
) -> tuple[Neighbourhood, Tensor]:
    """Whom each (node, time) attends to in the last layer, and with which weights (α of eq. 7).

    Arguments as for `embed`.
    Returns the neighbourhood [B, K] and the weights [B, H, K], zero where there is no neighbour.
    """
    source = _Source(model, history, node_features, None)
    distinct_nodes, distinct_times, place = distinct_pairs(nodes, times)
    chosen = sampler or configured_sampler(model.config)
    plan = _plan(model.config, history, chosen, distinct_nodes, distinct_times)
    weights = _computed(source, plan)[1]
    return plan[-1].neighbours.of(place), _rows(weights, place)


def configured_sampler(config: ModelConfig) -> Sampler:
    """The sampler that a model serves with."""
    return recent if config.sampling == "recent" else uniform(config.candidates)


def distinct_pairs(
    nodes: NDArray[np.int64], times: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """The M distinct pairs among nodes [B] and times [B]: their nodes [M], times [M], and each pair's place [B]."""
    ranks = np.unique(times, return_inverse=True)[1]
    _, first, place = np.unique(nodes * (len(times) + 1) + ranks, return_index=True, return_inverse=True)
    return nodes[first], times[first], place


@dataclass(frozen=True, eq=False)
class _Targets:
    """The M targets of one layer.

    nodes: [M]   times: [M]   neighbours: [M, K]
    own_below: [M], where each is among the targets of the layer below   neighbours_below: [M, K], the same of each
    neighbour (0 where masked); both empty for layer 1
    """

    nodes: NDArray[np.int64]
    times: NDArray[np.float64]
    neighbours: Neighbourhood
    own_below: NDArray[np.int64]
    neighbours_below: NDArray[np.int64]


def _plan(
    config: ModelConfig,
    history: TemporalAdjacency,
    sampler: Sampler,
    nodes: NDArray[np.int64],
    times: NDArray[np.float64],
) -> list[_Targets]:
    """The targets of layers 1 … L: those of layer l-1 are those of layer l and all their neighbours, each once."""
    plan: list[_Targets] = []
    for layer in range(config.layers, 0, -1):
        neighbours = sampler(history, nodes, times, config.neighbours)
        own = np.zeros(0, np.int64)
        below = np.zeros(neighbours.mask.shape, np.int64)
        lower_nodes, lower_times = nodes, times
        if layer > 1:
            mask = neighbours.mask
            lower_nodes, lower_times, place = distinct_pairs(
                np.concatenate([nodes, neighbours.node[mask]]), np.concatenate([times, neighbours.time[mask]])
            )
            own, below[mask] = place[: len(nodes)], place[len(nodes) :]
        plan.append(_Targets(nodes, times, neighbours, own, below))
        nodes, times = lower_nodes, lower_times
    return plan[::-1]


def _computed(source: "_Source", plan: list[_Targets]) -> tuple[Tensor, Tensor]:
    """h^(L) of the last layer's targets [M, D], and their weights [M, H, K]."""
    states = [source.own_layer0(plan[0])]
    for layer, level in enumerate(plan, start=1):
        below = states[-1]
        if layer > 1:
            states = [_rows(state, level.own_below) for state in states]
        state, weights = _layer(source, layer, level, states, below)
        states.append(state)
    return states[-1], weights


class _Source:
    """Where layer-0 states and edge features come from."""

    def __init__(
        self, model: Model, history: TemporalAdjacency, node_features: Tensor | None, edge_features: Tensor | None
    ) -> None:
        self.model = model
        self.history = history
        self.like = next(model.encoder.merge.parameters())  # device and type of every state
        self.node_features = node_features
        self.zero = node_features is None and not model.config.activity  # all of h^(0)
        on_cpu = self.like.device.type == "cpu" and self.like.dtype == torch.float32
        self.stays = on_cpu and model.encoder.reads_rows
        edges = torch.from_numpy(history.interactions.edge) if edge_features is None else edge_features
        # Padding reads row 0, also where there is no interaction at all.
        self.edge_features = edges if len(edges) else edges.new_zeros(1, edges.shape[1])

    def own_layer0(self, targets: _Targets) -> Tensor:
        """h^(0)(t) of each target: [M, w_0]."""
        if self.zero:
            return self.like.new_zeros(1, self.model.state_widths[0]).expand(len(targets.nodes), -1)
        active = np.zeros((len(targets.nodes), ACTIVITY_WIDTH), np.float32)
        if self.model.config.activity:
            active = activity(targets.times, *self.history.looked_back(targets.nodes, targets.times))
        return self._layer0(targets.nodes, active)

    def neighbour_layer0(self, neighbours: Neighbourhood, rows: slice) -> Tensor:
        """h_i^(0)(t_i) of the neighbours of some targets: [M, K, w_0]."""
        nodes = neighbours.node[rows]
        active = np.zeros((*nodes.shape, ACTIVITY_WIDTH), np.float32)
        if self.model.config.activity:
            mask = neighbours.mask[rows]
            active[mask] = self.history.half_edge_activity[_peers(neighbours, rows)[mask]]
        return self._layer0(nodes.ravel(), active.reshape(-1, ACTIVITY_WIDTH)).view(
            *nodes.shape, self.model.state_widths[0]
        )

    def layer0_rows(self, neighbours: Neighbourhood, rows: slice) -> tuple[Tensor, NDArray[np.int64]]:
        """A table of states h^(0) [S, w_0] and each neighbour's row of it [M, K]; no columns where all are zero."""
        nodes = neighbours.node[rows]
        if self.zero:
            return self.like.new_zeros(1, 0), np.zeros_like(nodes)
        if not self.model.config.activity and self.node_features is not None:
            return self.node_features, nodes
        if self.model.config.node_features == 0:
            return torch.from_numpy(self.history.half_edge_activity), _peers(neighbours, rows)
        states = self.neighbour_layer0(neighbours, rows).flatten(0, 1)
        return states, np.arange(nodes.size).reshape(nodes.shape)

    def edges(self, events: NDArray[np.int64]) -> Tensor:
        """Edge features of interactions [M, K]: [M, K, E]."""
        found = _rows(self.edge_features, events.ravel())
        return self._as_state(found).view(*events.shape, found.shape[1])

    def tensor(self, values: NDArray[np.generic]) -> Tensor:
        """An array, on the model's device."""
        return torch.from_numpy(values).to(self.like.device)

    def _layer0(self, nodes: NDArray[np.int64], active: NDArray[np.float32]) -> Tensor:
        if self.node_features is None:
            features = self.like.new_zeros(len(nodes), self.model.config.node_features)
        else:
            features = self._as_state(_rows(self.node_features, nodes))
        return self.model.layer0(features, self._as_state(torch.from_numpy(active)))

    def _as_state(self, values: Tensor) -> Tensor:
        return values.to(device=self.like.device, dtype=self.like.dtype)


def _layer(source: _Source, layer: int, targets: _Targets, own: list[Tensor], below: Tensor) -> tuple[Tensor, Tensor]:
    """h^(l) of the targets and their weights, a chunk at a time.

    own: each [M, w]   below: h^(l-1) of the layer below's targets
    """
    neighbours = targets.neighbours

    def over_rows(rows: slice) -> tuple[Tensor, Tensor]:
        mask = neighbours.mask[rows]
        span = np.where(mask, targets.times[rows, None] - neighbours.time[rows], 0.0)
        states, places = below, targets.neighbours_below[rows]
        if layer == 1:
            states, places = source.layer0_rows(neighbours, rows)
        found = NeighbourRows(states, places, source.edge_features, neighbours.event[rows], span, mask)
        return source.model.encoder.layer_over_rows(layer, [state[rows] for state in own], found)

    def gathered(rows: slice) -> tuple[Tensor, Tensor]:
        span = np.where(neighbours.mask[rows], targets.times[rows, None] - neighbours.time[rows], 0.0)
        places = targets.neighbours_below[rows]
        if layer == 1:
            states = source.neighbour_layer0(neighbours, rows)
        else:
            states = _rows(below, places.ravel()).view(*places.shape, below.shape[1])
        edges = source.edges(neighbours.event[rows])
        mask = source.tensor(neighbours.mask[rows])
        return source.model.layer(layer, [state[rows] for state in own], states, edges, source.tensor(span), mask)

    count = len(targets.nodes)
    run, size = (over_rows, ROWS_CHUNK) if source.stays else (gathered, CHUNK)
    if source.like.device.type != "cpu":
        size = max(count, 1)
    chunks = [slice(start, start + size) for start in range(0, count, size)] or [slice(0, 0)]
    if len(chunks) == 1 or not torch.is_grad_enabled():
        parts = [run(rows) for rows in chunks]
    else:
        # What was gathered for a chunk is gathered again in the backward pass: cheaper than to keep it.
        parts = [checkpoint(run, rows, use_reentrant=False) for rows in chunks]
    return torch.cat([state for state, _ in parts]), torch.cat([weights for _, weights in parts])


def _peers(neighbours: Neighbourhood, rows: slice) -> NDArray[np.int64]:
    """The half-edge at the other end of each neighbour's interaction: 2 · event + side, [M, K]."""
    return np.asarray(2 * neighbours.event[rows] + 1 - neighbours.side[rows], np.int64)


def _rows(table: Tensor, places: NDArray[np.int64]) -> Tensor:
    """Rows of a table, on its device; index_select, as its backward pass adds rows in bulk."""
    return table.index_select(0, torch.from_numpy(places).to(table.device))
