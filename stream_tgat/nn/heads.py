"""What reads an embedding: one 3-layer MLP per prediction head, and the affinity of two nodes."""

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from stream_tgat.nn.attention import glorot
from stream_tgat.nn.tgat import FeedForward

AffinityKind = Literal["mlp", "inner"]

LARGEST = torch.finfo(torch.float32).max
"""A bound that clips no number: one that is not finite would make a release's weights look spoilt."""


class PredictionHeads(nn.Module):
    """`count` heads over [embedding ‖ what is known of the current event], computed together.

    A head is the mean, in logits, of `members` independent 3-layer MLPs: each learns other draws of few positives.
    Networks are counted head by head.
    lowest, highest: [W], to which inputs are clipped, buffers, so that a release holds them; as made, not at all
    """

    lowest: Tensor
    highest: Tensor

    def __init__(self, count: int, width: int, hidden: tuple[int, int], dropout: float, members: int = 1) -> None:
        super().__init__()
        self.members = members
        sizes = (width, *hidden, 1)
        self.dropout = dropout
        self.register_buffer("lowest", torch.full((width,), -LARGEST))
        self.register_buffer("highest", torch.full((width,), LARGEST))
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList(glorot(rows, columns, count * members) for rows, columns in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(count * members, 1, columns)) for _, columns in pairs)

    def forward(self, embedding: Tensor, event: Tensor, head: int | None = None) -> Tensor:
        """Logits before calibration.

        embedding: [B, D]   event: [B, E]; or [networks, B, …], each network its own   head: only this one
        Returns [B, heads].
        """
        some = slice(None) if head is None else slice(head * self.members, (head + 1) * self.members)
        logits = self.each(torch.cat([embedding, event], -1), some)
        return logits.view(len(logits), logits.shape[1] // self.members, self.members).mean(-1)

    def each(self, inputs: Tensor, networks: slice = slice(None)) -> Tensor:
        """What each network says: inputs [B, W], or [networks, B, W]; [B, networks]."""
        parameters = [
            (weight[networks], bias[networks]) for weight, bias in zip(self.weights, self.biases, strict=True)
        ]
        clipped = inputs.clamp(self.lowest, self.highest)
        state = clipped.expand(len(parameters[0][0]), -1, -1)
        for depth, (weight, bias) in enumerate(parameters):
            if depth > 0:
                state = functional.dropout(state.relu(), self.dropout, self.training)
            state = state @ weight + bias
        return state.squeeze(-1).T

    def shrink(self, factors: Tensor) -> None:
        """Multiply the weights of each network, not its biases, by a factor: [networks]."""
        with torch.no_grad():
            for weight in self.weights:
                weight.mul_(factors[:, None, None])

    def repeated(self, times: int) -> Self:
        """Each network so many times, side by side, with the same weights."""
        result = copy.deepcopy(self)
        for values in (result.weights, result.biases):
            for at, value in enumerate(values):
                values[at] = nn.Parameter(value.detach().repeat_interleave(times, 0))
        return result

    def take(self, other: Self, rows: Sequence[int]) -> None:
        """Have the weights of some of another's networks, as many as there are here, and what it clips inputs to."""
        self.lowest.copy_(other.lowest)
        self.highest.copy_(other.highest)
        with torch.no_grad():
            for mine, theirs in zip(self.parameters(), other.parameters(), strict=True):
                mine.copy_(theirs[list(rows)])


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
