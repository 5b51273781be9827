"""What a model says about pairs of nodes at a time: affinities of what happened and of what did not."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.pairs import pair_features
from stream_tgat.graph.sampling import Sampler
from stream_tgat.nn.embedding import embed
from stream_tgat.nn.model import Model


@dataclass(frozen=True, eq=False)
class TemporalGraph:
    """What an encoder reads: the history and the nodes' own features.

    node_features: [N, F] on the model's device, or None where there are none or all are zero
    """

    history: TemporalAdjacency
    node_features: Tensor | None

    @classmethod
    def of(
        cls, interactions: Interactions, node_features: NDArray[np.float32] | None, device: torch.device | None = None
    ) -> "TemporalGraph":
        """The graph of some interactions; without features any number of nodes."""
        count = None if node_features is None else len(node_features)
        zero = node_features is None or not node_features.any()
        features = None if zero else torch.from_numpy(node_features).to(device)
        return cls(TemporalAdjacency(interactions, count), features)

    def embed(
        self, model: Model, nodes: NDArray[np.int64], times: NDArray[np.float64], sampler: Sampler | None = None
    ) -> Tensor:
        """h^(L) of each (node, time), from strictly earlier interactions: [B, D]."""
        return embed(model, self.history, self.node_features, nodes, times, sampler=sampler)


def link_loss(
    model: Model,
    graph: TemporalGraph,
    events: NDArray[np.int64],
    drawn: NDArray[np.int64],
    sampler: Sampler | None = None,
) -> Tensor:
    """The loss of a batch, per positive.

    events: [B] int64, interactions   drawn: [B, Q] int64, negative destinations of each
    """
    positive, negative = affinities(model, graph, events, drawn, sampler)
    return softplus(-positive).mean() + softplus(negative).sum(-1).mean()


def affinities(
    model: Model,
    graph: TemporalGraph,
    events: NDArray[np.int64],
    drawn: NDArray[np.int64],
    sampler: Sampler | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits of what happened [B] and of what did not [B, Q]."""
    interactions = graph.history.interactions
    asked = np.concatenate([interactions.destination[events][:, None], drawn], 1)
    scores = pair_logits(model, graph, interactions.source[events], asked, interactions.time[events], sampler)
    return scores[:, 0], scores[:, 1:]


def pair_logits(
    model: Model,
    graph: TemporalGraph,
    sources: NDArray[np.int64],
    asked: NDArray[np.int64],
    times: NDArray[np.float64],
    sampler: Sampler | None = None,
) -> Tensor:
    """The affinity of each source with each destination asked about; each distinct (node, time) is embedded once.

    sources: [B] int64   asked: [B, Q] int64, destinations   times: [B] float64
    Returns [B, Q], from interactions strictly earlier.
    """
    count, per_source = asked.shape
    nodes = np.concatenate([sources, asked.ravel()])
    embedded = graph.embed(model, nodes, np.concatenate([times, np.repeat(times, per_source)]), sampler)
    source, other = embedded[:count], embedded[count:]
    met = None
    if model.config.pair_features:
        pairs = pair_features(graph.history, sources, asked, times, model.config.candidates)
        met = torch.from_numpy(pairs.reshape(len(other), -1)).to(other)
    scores: Tensor = model.affinity(source.repeat_interleave(per_source, 0), other, met)
    return scores.view(count, per_source)
