"""Graph networks that differ from TGAT in one place: how a layer sums up a neighbourhood.

Everything else is TGAT's: neighbourhoods, recursion, Φ where a method reads time, and the feed-forward network of eq.
8, which reads [aggregate ‖ own state]. The own state is h^(l-1), as in GraphSAGE; for TGAT with constant weights it is
x_0, as in the paper. A neighbour is z_i = [h_i ‖ x_i ‖ Φ(t − t_i)]; without the last block if a method reads no time.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from stream_tgat.nn.attention import glorot, neighbour_weights
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.presets import preset_named
from stream_tgat.nn.tgat import TGAT, FeedForward

Aggregation = Literal["constant", "additive", "mean", "pool", "lstm"]

LEAK = 0.2
"""Slope of LeakyReLU below zero in additive attention (Veličković et al., 2018)."""


class Aggregator(nn.Module, ABC):
    """Sums up a neighbourhood. out_width: A, numbers in an aggregate."""

    out_width: int

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        """Aggregate each target's neighbours.

        query: [B, Z], z_0   keys: [B, K, Z], z_i, oldest first   mask: [B, K] bool, True where a neighbour exists; what
        is masked may hold any finite numbers   dropout: probability with which a weight is dropped
        Returns the aggregate [B, A], zero without neighbours, and the weights [B, H, K] before dropout, zero for absent
        neighbours and everywhere in aggregators that have no weights.
        """


class Mean(Aggregator):
    """GraphSAGE-mean: Σ z_i / n."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out_width = width

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """As `Aggregator` says."""
        weights = constant_weights(mask, keys.dtype)
        return weighted(keys, weights, dropout).squeeze(1), weights


class Constant(Aggregator):
    """TGAT with every α_i = 1/n: W_Vᵀ Σ z_i / n. All heads would see the same, so one stands for them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.value = glorot(width, hidden)
        self.out_width = hidden

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """As `Aggregator` says."""
        weights = constant_weights(mask, keys.dtype)
        return weighted(keys, weights, dropout).squeeze(1) @ self.value, weights


class Additive(Aggregator):
    """GAT: α = softmax of LeakyReLU(a·[W z_0 ‖ W z_i]), then ELU(Σ α_i W z_i), heads side by side.

    a·[W z_0 ‖ W z_i] is (W a_0)·z_0 + (W a_1)·z_i, and the sum is Wᵀ Σ α_i z_i: W z_i is never formed.
    """

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, hidden // heads
        self.project = glorot(width, hidden)
        self.ask = glorot(self.head_width, 1, heads)
        self.answer = glorot(self.head_width, 1, heads)
        self.out_width = hidden

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        """As `Aggregator` says."""
        project = self.project.view(-1, self.heads, self.head_width).transpose(0, 1)  # [H, Z, d_h]
        of_query = query @ (project @ self.ask).squeeze(-1).T  # [B, H]
        of_keys = keys @ (project @ self.answer).squeeze(-1).T  # [B, K, H]
        scores = functional.leaky_relu(of_query.unsqueeze(-1) + of_keys.transpose(1, 2), LEAK)
        weights = neighbour_weights(scores, mask)
        total = weighted(keys, weights, dropout)  # [B, H, Z]
        return functional.elu((total.transpose(0, 1) @ project).transpose(0, 1).flatten(1)), weights


class MaxPool(Aggregator):
    """GraphSAGE-pool: the largest of ReLU(W z_i + b), number by number."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight = glorot(width, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out_width = hidden

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """As `Aggregator` says."""
        # ReLU is never below zero, so a zero in the place of an absent neighbour is never the largest wrongly.
        each = (keys @ self.weight + self.bias).relu() * mask.unsqueeze(-1)
        return each.amax(1), no_weights(mask, keys.dtype)


class Recurrent(Aggregator):
    """GraphSAGE-LSTM: the last hidden state of an LSTM over the neighbours, in the order of time."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.out_width = hidden

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """As `Aggregator` says."""
        aggregate = keys.new_zeros(len(keys), self.out_width)
        count = mask.sum(1)
        some = count > 0
        if some.any():
            order = (
                (~mask[some]).int().argsort(dim=1, stable=True).unsqueeze(-1)
            )  # those that exist first, still by time
            steps = keys[some].gather(1, order.expand(-1, -1, keys.shape[2]))
            packed = nn.utils.rnn.pack_padded_sequence(steps, count[some].cpu(), batch_first=True, enforce_sorted=False)
            aggregate = aggregate.index_put((some,), self.lstm(packed)[1][0].squeeze(0))
        return aggregate, no_weights(mask, keys.dtype)


def constant_weights(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """1 / (number of neighbours): mask [B, K] bool, True where one exists; returns [B, 1, K], zero for absent ones."""
    exists = mask.to(dtype)
    return (exists / exists.sum(1, keepdim=True).clamp(min=1.0)).unsqueeze(1)


def no_weights(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros [B, 1, K], for aggregators in which a neighbour has no weight."""
    return mask.new_zeros(mask.shape[0], 1, mask.shape[1], dtype=dtype)


def weighted(keys: Tensor, weights: Tensor, dropout: float) -> Tensor:
    """Σ α_i z_i of each head, with weights dropped at random: keys [B, K, Z], weights [B, H, K]; [B, H, Z]."""
    return (functional.dropout(weights, dropout) if dropout > 0.0 else weights) @ keys


class AggregatingEncoder(TGAT):
    """TGAT's recursion with another aggregator in the place of its attention.

    Where a method reads neither state, edge features nor time there is nothing to sum up, and every embedding is zero.
    (Its biases alone would still tell an empty neighbourhood from another, which is none of its inputs.)
    """

    def __init__(self, config: ModelConfig, aggregation: Aggregation, reads_time: bool) -> None:
        preset = replace(preset_named("paper"), merge_raw=aggregation == "constant")
        beside = config.edge_features + (config.time_dim if reads_time else 0)
        super().__init__(
            preset, config.encoder_shape, lambda below: _aggregator(aggregation, max(below + beside, 1), config)
        )
        self.reads_time = reads_time
        self.sees_nothing = config.state_widths[0] + beside == 0

    def layer(
        self, layer: int, own: Sequence[Tensor], neighbour_state: Tensor, edge: Tensor, span: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h^(l) of B targets from the layer below; see `TGAT.layer`."""
        aggregator, merge = cast(Aggregator, self.attention[layer - 1]), cast(FeedForward, self.merge[layer - 1])
        dtype = merge.bias_0.dtype
        if self.sees_nothing:
            # A product, so that training still has a gradient to take: zero.
            return merge.bias_1.expand(len(mask), -1) * 0.0, no_weights(mask, dtype)
        if self.training and self.neighbour_dropout > 0.0:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.neighbour_dropout)
        query = [own[layer - 1], edge.new_zeros(len(mask), edge.shape[-1])]
        keys = [neighbour_state, edge]
        if self.reads_time:
            query.append(self.time_encoding.at_zero(dtype).expand(len(mask), -1))
            keys.append(self.time_encoding(span, dtype))
        dropout = self.attention_dropout if self.training else 0.0
        aggregate, weights = aggregator(torch.cat(query, -1), torch.cat(keys, -1), mask, dropout)
        return merge(aggregate, own[0] if self.preset.merge_raw else own[layer - 1]), weights


class AggregatingModel(Model):
    """A model like any other, but for its encoder. reads_time: whether neighbours carry Φ(t − t_i)."""

    def __init__(self, config: ModelConfig, aggregation: Aggregation, *, reads_time: bool) -> None:
        super().__init__(config, AggregatingEncoder(config, aggregation, reads_time))


def _aggregator(aggregation: Aggregation, width: int, config: ModelConfig) -> Aggregator:
    match aggregation:
        case "constant":
            return Constant(width, config.hidden)
        case "additive":
            return Additive(width, config.hidden, config.attention_heads)
        case "mean":
            return Mean(width)
        case "pool":
            return MaxPool(width, config.hidden)
        case "lstm":
            return Recurrent(width, config.hidden)
