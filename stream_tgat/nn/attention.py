"""One layer of temporal attention (eq. 6-8), with one query per target.

Keys and values are never formed. With z_i = [h_i ‖ x_i ‖ Φ(t − t_i)],

    q·K_i = q·(W_Kᵀ z_i) = (W_K q)·z_i         Σ α_i V_i = W_Vᵀ (Σ α_i z_i)

so W_K is multiplied into the query and W_V applied after the weighted sum: O(K·d + d²) per target, not O(K·d²).

Weights multiply from the right, (in, out), as in the paper's equations; head k owns the k-th equal block of columns of
`query`, `key` and `value`. The rows of `query` are [state ‖ time]: a query's edge block is zero, so it has no rows. The
rows of `key` and `value` are [state ‖ edge ‖ time].
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from stream_tgat.nn.presets import Preset
from stream_tgat.nn.time_encoding import TimeEncoding
from stream_tgat.nn.training_kernels import NeighbourRows, attend


def glorot(rows: int, columns: int, copies: int | None = None) -> nn.Parameter:
    """A weight (in, out), or `copies` of it stacked, uniform in ±sqrt(6 / (in + out))."""
    bound = (6.0 / max(rows + columns, 1)) ** 0.5
    shape = (rows, columns) if copies is None else (copies, rows, columns)
    return nn.Parameter((torch.rand(shape) * 2.0 - 1.0) * bound)


def neighbour_weights(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the neighbours that exist (eq. 7).

    scores: [B, H, K]   mask: [B, K] bool, True where a neighbour exists
    Returns [B, H, K]; zero for absent neighbours, so a row without neighbours is all zero, never an average of padding.
    """
    exists = mask.unsqueeze(1)
    return scores.masked_fill(~exists, torch.finfo(scores.dtype).min).softmax(-1) * exists


class Attention(nn.Module):
    """Attend from each target's state to its neighbours.

    state: w, the width of h^(l-1); may be 0 where nodes have no features. edge: E; may be 0. time: T.
    hidden: D. The heads together are A numbers wide: D for the paper; for the variants with a residual the query's
    width, rounded up to a multiple of the heads.
    """

    def __init__(self, state: int, edge: int, time: int, hidden: int, heads: int, preset: Preset) -> None:
        super().__init__()
        self.state, self.edge, self.time, self.heads = state, edge, time, heads
        self.query_edge = edge if preset.query_has_edge_block else 0
        query_width = state + self.query_edge + time
        width = -(-query_width // heads) * heads if preset.residual else hidden
        self.head_width = width // heads
        self.query = glorot(state + time, width)
        self.key = glorot(state + edge + time, width)
        self.value = glorot(state + edge + time, width)
        self.residual = preset.residual
        self.out_width = query_width if preset.residual else width
        if preset.residual:
            self.output = glorot(width, query_width)
            self.output_bias = nn.Parameter(torch.zeros(query_width))
            self.norm = nn.LayerNorm(query_width, eps=1e-5)

    def forward(
        self,
        own: Tensor,
        time_zero: Tensor,
        neighbour_state: Tensor,
        edge: Tensor,
        time: Tensor,
        mask: Tensor,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Aggregate each target's neighbourhood.

        own: [B, w]   time_zero: [T]   neighbour_state: [B, K, w]   edge: [B, K, E]   time: [B, K, T]
        mask: [B, K] bool; what is masked may hold any finite numbers
        dropout: probability with which a neighbour's weight is dropped, for training; output_dropout: the same of what
        a residual is added to
        Returns the aggregate [B, A], or after the residual [B, w + T] ([B, w + E + T] with an edge block in the query),
        and the weights [B, H, K] before dropout.
        """
        folded = self.folded_query(own, time_zero)
        parts = list(
            zip(torch.split(folded, [self.state, self.edge, self.time], -1), (neighbour_state, edge, time), strict=True)
        )
        parts = [(query, block) for query, block in parts if query.shape[-1] > 0]
        scores = _dot(*parts[0])
        for query, block in parts[1:]:
            scores = scores + _dot(query, block)
        weights = neighbour_weights(scores, mask)
        dropped = functional.dropout(weights, dropout) if dropout > 0.0 else weights
        total = torch.cat([dropped @ block for _, block in parts], -1)
        return self.finish(total, own, time_zero, output_dropout), weights

    def over_rows(
        self,
        own: Tensor,
        encoding: TimeEncoding,
        rows: NeighbourRows,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """As `forward`, for neighbours that stay where they are: float32 on a CPU.

        own: [B, w]; rows.states may have no columns where all states are zero, and `own` then is zero as well
        """
        zero = encoding.at_zero(own.dtype)
        folded = self.folded_query(own, zero, without_states=rows.states.shape[1] < self.state)
        total, weights = attend(folded, rows, encoding, dropout)
        return self.finish(total, own, zero, output_dropout), weights

    def folded_query(self, own: Tensor, time_zero: Tensor, without_states: bool = False) -> Tensor:
        """(W_K q) / sqrt(d_h), ready for a product with z_i.

        own: [B, w]   time_zero: [T]   without_states: all states, also the own, are zero and left out
        Returns [B, H, w + E + T]; [1, H, E + T] where there is no state, as then all targets ask the same.
        """
        left_out = self.state if without_states else 0
        query = (time_zero @ self.query[self.state :]).unsqueeze(0)
        if self.state > left_out:
            query = query + own @ self.query[: self.state]
        per_head = query.view(-1, self.heads, self.head_width).transpose(0, 1)  # [H, B, d_h]
        keys = self.key[left_out:].view(-1, self.heads, self.head_width).permute(1, 2, 0)  # [H, d_h, w + E + T]
        folded: Tensor = torch.matmul(per_head, keys)
        return folded.transpose(0, 1) / math.sqrt(self.head_width)

    def finish(self, total: Tensor, own: Tensor, time_zero: Tensor, dropout: float = 0.0) -> Tensor:
        """W_V on the weighted sums, then the preset's residual.

        total: [B, H, w + E + T], Σ α_i z_i per head, or [B, H, E + T] without states that are zero   own: [B, w]
        time_zero: [T]
        Returns [B, A], or with a residual the query's width.
        """
        value = self.value[len(self.value) - total.shape[-1] :]
        values: Tensor = value.view(-1, self.heads, self.head_width).transpose(0, 1)  # [H, w + E + T, d_h]
        aggregate = (total.transpose(0, 1) @ values).transpose(0, 1).flatten(1)
        if not self.residual:
            return aggregate
        rows = aggregate.shape[0]
        query = torch.cat([own, own.new_zeros(rows, self.query_edge), time_zero.expand(rows, -1)], -1)
        projected = aggregate @ self.output + self.output_bias
        if dropout > 0.0:
            projected = functional.dropout(projected, dropout)
        normed: Tensor = self.norm(projected + query)
        return normed


def _dot(query: Tensor, block: Tensor) -> Tensor:
    """Product of query [B or 1, H, n] with block [B, K, n]: [B, H, K]."""
    if query.shape[0] == 1:
        return (block @ query[0].T).transpose(1, 2)
    return query @ block.transpose(1, 2)
