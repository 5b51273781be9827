"""What reads an embedding: one 3-layer MLP per prediction head, and the affinity of two nodes."""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from stream_tgat.nn.attention import glorot
from stream_tgat.nn.tgat import FeedForward

AffinityKind = Literal["mlp", "inner"]


class PredictionHeads(nn.Module):
    """`count` independent 3-layer MLPs over [embedding ‖ the current event's edge features], computed together."""

    def __init__(self, count: int, width: int, hidden: tuple[int, int], dropout: float) -> None:
        super().__init__()
        sizes = (width, *hidden, 1)
        self.dropout = dropout
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList(glorot(rows, columns, count) for rows, columns in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(count, 1, columns)) for _, columns in pairs)

    def forward(self, embedding: Tensor, edge: Tensor) -> Tensor:
        """Logits before calibration.

        embedding: [B, D]   edge: [B, E]
        Returns [B, heads].
        """
        state = torch.cat([embedding, edge], -1).expand(self.weights[0].shape[0], -1, -1)
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if depth > 0:
                state = functional.dropout(state.relu(), self.dropout, self.training)
            state = state @ weight + bias
        return state.squeeze(-1).T


class Affinity(nn.Module):
    """How likely two nodes interact at a time: a logit.

    kind "mlp": a network over [h_i ‖ h_j ‖ pair features]; "inner": h_i · h_j, as in the paper's loss.
    """

    def __init__(self, kind: AffinityKind, width: int, pair: int) -> None:
        super().__init__()
        self.network = FeedForward(2 * width + pair, width, 1) if kind == "mlp" else None

    def forward(self, source: Tensor, destination: Tensor, pair: Tensor | None = None) -> Tensor:
        """Affinity of each pair of rows.

        source, destination: [B, D]   pair: [B, P], or None where there are no pair features
        Returns [B].
        """
        if self.network is None:
            return (source * destination).sum(-1)
        parts = (source, destination) if pair is None else (source, destination, pair)
        score: Tensor = self.network(*parts)
        return score.squeeze(-1)
