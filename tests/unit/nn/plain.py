"""The layer as in the equations, keys and values formed, one target and one head after the other, in float64.

The oracle for the package's re-associated form. It reads a model's weights and nothing else of it.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.nn.model import Model

Vector = NDArray[np.float64]


def plain_time(model: Model, span: float) -> Vector:
    """Φ(Δt): sqrt(1/d) [cos ω_1 Δt, sin ω_1 Δt, …], or cos(ω Δt + φ)."""
    encoding = model.encoder.time_encoding
    if model.encoder.preset.bochner:
        angle = np.exp(_array(encoding.log_omega)) * span
        return np.stack([np.cos(angle), np.sin(angle)], 1).ravel() / np.sqrt(len(angle))
    assert encoding.phase is not None
    return np.cos(_array(encoding.omega) * span + _array(encoding.phase))


def plain_layer(
    model: Model, layer: int, own: list[Vector], neighbours: list[tuple[Vector, Vector, float]]
) -> tuple[Vector, Vector]:
    """h^(l) of one target [D] and its weights [H, neighbours].

    own: its h^(0 … l-1)   neighbours: h_i^(l-1)(t_i), edge features, t − t_i of each one that exists
    """
    preset, heads = model.encoder.preset, model.config.attention_heads
    attention, merge = model.encoder.attention[layer - 1], model.encoder.merge[layer - 1]
    state = own[layer - 1]
    zero = plain_time(model, 0.0)
    query = np.concatenate([state, zero]) @ _array(attention.query)
    keys = [np.concatenate([h, x, plain_time(model, span)]) @ _array(attention.key) for h, x, span in neighbours]
    values = [np.concatenate([h, x, plain_time(model, span)]) @ _array(attention.value) for h, x, span in neighbours]
    width = len(query) // heads
    aggregate = np.zeros(len(query))
    weights = np.zeros((heads, len(neighbours)))
    for head in range(heads):
        block = slice(head * width, (head + 1) * width)
        if neighbours:
            scores = np.array([query[block] @ key[block] / np.sqrt(width) for key in keys])
            raised = np.exp(scores - scores.max())
            weights[head] = raised / raised.sum()
            aggregate[block] = sum(w * value[block] for w, value in zip(weights[head], values, strict=True))
    if preset.residual:
        block_of_edges = np.zeros(model.config.edge_features if preset.query_has_edge_block else 0)
        summed = aggregate @ _array(attention.output) + _array(attention.output_bias)
        summed = summed + np.concatenate([state, block_of_edges, zero])
        normed = (summed - summed.mean()) / np.sqrt(summed.var() + 1e-5)
        aggregate = normed * _array(attention.norm.weight) + _array(attention.norm.bias)
    joined = np.concatenate([aggregate, own[0] if preset.merge_raw else state])
    hidden = np.maximum(joined @ _array(merge.weight_0) + _array(merge.bias_0), 0.0)
    return hidden @ _array(merge.weight_1) + _array(merge.bias_1), weights


def plain_embedding(
    model: Model, history: TemporalAdjacency, features: Vector, layer: int, node: int, time: float
) -> Vector:
    """h^(l)_node(t) by the recursion itself: scans all interactions at every step."""
    if layer == 0:
        return np.concatenate([features[node], _plain_activity(model, history, node, time)])
    return plain_attended(model, history, features, layer, node, time)[0]


def plain_attended(
    model: Model, history: TemporalAdjacency, features: Vector, layer: int, node: int, time: float
) -> tuple[Vector, Vector]:
    """h^(l)_node(t) [D] and its weights [H, neighbours], oldest first, layer >= 1."""
    own = [plain_embedding(model, history, features, below, node, time) for below in range(layer)]
    neighbours = [
        (plain_embedding(model, history, features, layer - 1, peer, then), edge, time - then)
        for peer, edge, then in _past(history, node, time)[-model.config.neighbours :]
    ]
    return plain_layer(model, layer, own, neighbours)


def _past(history: TemporalAdjacency, node: int, time: float) -> list[tuple[int, Vector, float]]:
    """(peer, edge features, time) of a node's interactions strictly before a time, oldest first."""
    interactions = history.interactions
    past = []
    for place, then in enumerate(interactions.time):
        ends = (int(interactions.source[place]), int(interactions.destination[place]))
        for owner, peer in (ends, ends[::-1]):
            if owner == node and then < time:
                past.append((peer, interactions.edge[place].astype(np.float64), float(then)))
    return past


def _plain_activity(model: Model, history: TemporalAdjacency, node: int, time: float) -> Vector:
    if not model.config.activity:
        return np.zeros(0)
    past = _past(history, node, time)
    back = [np.log1p(time - past[-steps][2]) if len(past) >= steps else -1.0 for steps in (1, 5)]
    return np.array([np.log1p(len(past)), *back])


def _array(parameter: torch.Tensor | torch.nn.Module) -> Vector:
    assert isinstance(parameter, torch.Tensor)
    return parameter.detach().double().numpy()
