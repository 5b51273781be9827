"""The encoder: a time encoding and L layers of attention, each with its feed-forward network (eq. 8).

Knows tensors only: who the neighbours are, and where their states come from, is the caller's business.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from stream_tgat.nn.attention import Attention, glorot
from stream_tgat.nn.presets import Preset
from stream_tgat.nn.time_encoding import TimeEncoding
from stream_tgat.nn.training_kernels import NeighbourRows


class FeedForward(nn.Module):
    """ReLU([h ‖ x] W_0 + b_0) W_1 + b_1, with weights (in, out)."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.weight_0 = glorot(width, hidden)
        self.bias_0 = nn.Parameter(torch.zeros(hidden))
        self.weight_1 = glorot(hidden, out)
        self.bias_1 = nn.Parameter(torch.zeros(out))

    def forward(self, *parts: Tensor) -> Tensor:
        """Parts [B, n_i], of `width` in all: [B, out]."""
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return (joined @ self.weight_0 + self.bias_0).relu() @ self.weight_1 + self.bias_1


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of an encoder: w_0 (0 where nodes have no state), E, T, D, H and L."""

    state: int
    edge: int
    time: int
    hidden: int
    heads: int
    layers: int


class Aggregates(Protocol):
    """A module that sums up a neighbourhood. out_width: numbers in an aggregate."""

    out_width: int


class TGAT(nn.Module):
    """Temporal graph attention of L layers."""

    def __init__(
        self, preset: Preset, shape: EncoderShape, aggregator: Callable[[int], Aggregates] | None = None
    ) -> None:
        """aggregator: makes the module of a layer from the width of the states below; by default attention."""
        super().__init__()
        #: Whether `layer_over_rows` computes the same as `layer`.
        self.reads_rows = aggregator is None
        self.preset = preset
        self.state_widths = (shape.state,) + (shape.hidden,) * (shape.layers - 1)
        self.time_encoding = TimeEncoding(shape.time, bochner=preset.bochner)

        def attention(below: int) -> Aggregates:
            return Attention(below, shape.edge, shape.time, shape.hidden, shape.heads, preset)

        made = [(aggregator or attention)(below) for below in self.state_widths]
        kept = [shape.state if preset.merge_raw else below for below in self.state_widths]
        self.attention = nn.ModuleList(cast(nn.Module, each) for each in made)
        self.merge = nn.ModuleList(
            FeedForward(each.out_width + width, shape.hidden, shape.hidden)
            for each, width in zip(made, kept, strict=True)
        )
        self.attention_dropout = 0.0
        self.output_dropout = 0.0
        self.neighbour_dropout = 0.0

    def layer(
        self, layer: int, own: Sequence[Tensor], neighbour_state: Tensor, edge: Tensor, span: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h^(l) of B targets from the layer below.

        layer: 1 … L   own: h^(0 … l-1)(t) of the targets, each [B, w]
        neighbour_state: [B, K, w_(l-1)], h_i^(l-1)(t_i)   edge: [B, K, E]   span: [B, K] float64, t − t_i in seconds
        mask: [B, K] bool, True where a neighbour exists; what is masked may hold any finite numbers
        Returns h^(l) [B, D] and the attention weights [B, H, K].
        """
        attention, merge = cast(Attention, self.attention[layer - 1]), cast(FeedForward, self.merge[layer - 1])
        dtype = merge.bias_0.dtype
        if self.training and self.neighbour_dropout > 0.0:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.neighbour_dropout)
        aggregate, weights = attention(
            own[layer - 1],
            self.time_encoding.at_zero(dtype),
            neighbour_state,
            edge,
            self.time_encoding(span, dtype),
            mask,
            *self._dropouts(),
        )
        return merge(aggregate, own[0] if self.preset.merge_raw else own[layer - 1]), weights

    def layer_over_rows(self, layer: int, own: Sequence[Tensor], rows: NeighbourRows) -> tuple[Tensor, Tensor]:
        """As `layer`, for neighbours that stay where they are: float32 on a CPU.

        own: h^(0 … l-1)(t) of the targets, each [B, w]
        """
        attention, merge = cast(Attention, self.attention[layer - 1]), cast(FeedForward, self.merge[layer - 1])
        if self.training and self.neighbour_dropout > 0.0:
            rows = rows.masked(rows.mask & (torch.rand(rows.mask.shape) >= self.neighbour_dropout).numpy())
        aggregate, weights = attention.over_rows(own[layer - 1], self.time_encoding, rows, *self._dropouts())
        return merge(aggregate, own[0] if self.preset.merge_raw else own[layer - 1]), weights

    def _dropouts(self) -> tuple[float, float]:
        """Of attention weights and of what a residual is added to."""
        return (self.attention_dropout, self.output_dropout) if self.training else (0.0, 0.0)
