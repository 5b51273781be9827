"""Attention over neighbours for training on a CPU: forward and backward each in one pass over the rows where they lie.

What the layers in torch write to memory and read again for the backward pass (gathered neighbours, time encodings,
scores), is formed here for one target at a time and forgotten; the backward pass forms it once more. To rounding it is
the same as `Attention.forward`, and so are the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from stream_tgat.nn.compiled import compiled, encode, sine
from stream_tgat.nn.time_encoding import TURN, TimeEncoding


@dataclass(frozen=True, eq=False)
class NeighbourRows:
    """Where the neighbours of R targets lie, K places each.

    states: [S, w] float32, h^(l-1)   state_at: [R, K] int64, rows of it
    edges: [n, E] float32   edge_at: [R, K] int64, rows of it
    spans: [R, K] float64, t − t_i in seconds   mask: [R, K] bool, True where a neighbour exists; elsewhere any rows
    """

    states: Tensor
    state_at: NDArray[np.int64]
    edges: Tensor
    edge_at: NDArray[np.int64]
    spans: NDArray[np.float64]
    mask: NDArray[np.bool_]

    def masked(self, mask: NDArray[np.bool_]) -> NeighbourRows:
        """The same, with fewer that exist."""
        return NeighbourRows(self.states, self.state_at, self.edges, self.edge_at, self.spans, mask)


def attend(folded: Tensor, rows: NeighbourRows, encoding: TimeEncoding, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Scores, softmax and weighted sum of each target's neighbours z_i = [h_i ‖ x_i ‖ Φ(t − t_i)].

    folded: [R or 1, H, w + E + T] float32, what the targets ask   dropout: of the weights
    Returns Σ α_i z_i [R, H, w + E + T], differentiable in folded, states and the encoding; and the weights [R, H, K]
    before dropout.
    """
    shape = (len(rows.mask), folded.shape[1], rows.mask.shape[1])
    factors = torch.zeros(0, 0, 0)
    if dropout > 0.0:
        factors = (torch.rand(shape) >= dropout) / (1.0 - dropout)
    found = _Attend.apply(folded, rows.states, encoding.frequencies(), encoding.phase, factors, rows)
    return cast(tuple[Tensor, Tensor], found)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        folded: Tensor,
        states: Tensor,
        omega: Tensor,
        phase: Tensor | None,
        factors: Tensor,
        rows: NeighbourRows,
    ) -> tuple[Tensor, Tensor]:
        asked = folded.contiguous()
        heads, width = asked.shape[1:]
        total = torch.empty(len(rows.mask), heads, width)
        weights = torch.empty(len(rows.mask), heads, rows.mask.shape[1])
        _attend(total.numpy(), weights.numpy(), *_inputs(asked, states, omega, phase, factors, rows))
        ctx.rows = rows
        ctx.save_for_backward(asked, states, omega, phase, factors, weights)
        ctx.mark_non_differentiable(weights)
        return total, weights

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, by_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        folded, states, omega, phase, factors, weights = ctx.saved_tensors
        by_folded = torch.zeros(folded.shape, dtype=torch.float64 if len(folded) == 1 else torch.float32)
        by_states = torch.zeros(states.shape if ctx.needs_input_grad[1] else (0, states.shape[1]))
        by_angle_and_span, by_angle = torch.zeros_like(omega), torch.zeros_like(omega)
        _backward(
            weights.numpy(),
            by_total.contiguous().numpy(),
            by_folded.numpy(),
            by_states.numpy(),
            by_angle_and_span.numpy(),
            by_angle.numpy(),
            *_inputs(folded, states, omega, phase, factors, ctx.rows),
        )
        return (
            by_folded.to(folded.dtype),
            by_states if ctx.needs_input_grad[1] else None,
            by_angle_and_span,
            None if phase is None else by_angle.to(phase.dtype),
            None,
            None,
        )


def _inputs(
    folded: Tensor, states: Tensor, omega: Tensor, phase: Tensor | None, factors: Tensor, rows: NeighbourRows
) -> tuple[Any, ...]:
    """The last arguments of both kernels."""
    turns = (omega.detach() / TURN).numpy()
    offsets = np.zeros_like(turns) if phase is None else (phase.detach().double() / TURN).numpy()
    return (
        folded.detach().numpy(),
        states.detach().contiguous().numpy(),
        rows.state_at,
        rows.edges.contiguous().numpy(),
        rows.edge_at,
        rows.spans,
        rows.mask,
        turns,
        offsets,
        phase is None,
        factors.numpy(),
    )


@compiled
def _dot(a: Any, b: Any) -> Any:
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled
def _add(scale: Any, values: Any, to: Any) -> None:
    for j in range(values.shape[0]):
        to[j] += scale * values[j]


@compiled
def _present(mask: Any, places: Any) -> Any:
    """The places of a target's neighbours that exist: ?[K] into the first of i8[K]; how many."""
    count = 0
    for k in range(mask.shape[0]):
        if mask[k]:
            places[count] = k
            count += 1
    return count


@compiled
def _split(values: Any, bochner: bool, out: Any) -> None:
    """Time block as the kernels hold it: for Bochner all cosines, then all sines."""
    half = values.shape[0] // 2
    if bochner:
        for j in range(half):
            out[j], out[half + j] = values[2 * j], values[2 * j + 1]
    else:
        for j in range(values.shape[0]):
            out[j] = values[j]


@compiled
def _join(values: Any, bochner: bool, to: Any) -> None:
    """Add what `_split` would split."""
    half = values.shape[0] // 2
    if bochner:
        for j in range(half):
            to[2 * j] += values[j]
            to[2 * j + 1] += values[half + j]
    else:
        for j in range(values.shape[0]):
            to[j] += values[j]


@compiled
def _attend(
    total: Any,
    weights: Any,
    folded: Any,
    states: Any,
    state_at: Any,
    edges: Any,
    edge_at: Any,
    spans: Any,
    mask: Any,
    turns: Any,
    offsets: Any,
    bochner: bool,
    factors: Any,
) -> None:
    """Fill total and weights; see `attend`. factors: [R, H, K] of the weights, empty for none."""
    targets, neighbours = mask.shape
    heads, width = folded.shape[1], folded.shape[2]
    state, edge = states.shape[1], edges.shape[1]
    time_at = state + edge
    scale = np.float32(1.0 / np.sqrt(turns.shape[0])) if bochner else np.float32(1.0)
    phi = np.empty((neighbours, width - time_at), np.float32)
    asked = np.empty((heads, width - time_at), np.float32)
    summed = np.empty(width - time_at, np.float32)
    present = np.empty(neighbours, np.int64)
    for r in range(targets):
        total[r] = np.float32(0.0)
        weights[r] = np.float32(0.0)
        count = _present(mask[r], present)
        if count == 0:
            continue
        ask = folded[min(r, folded.shape[0] - 1)]
        for head in range(heads):
            _split(ask[head, time_at:], bochner, asked[head])
        for i in range(count):
            k = present[i]
            encode(spans[r, k], turns, offsets, bochner, scale, phi[i])
            h, x = states[state_at[r, k]], edges[edge_at[r, k]]
            for head in range(heads):
                weights[r, head, k] = (
                    _dot(h, ask[head, :state]) + _dot(x, ask[head, state:time_at]) + _dot(phi[i], asked[head])
                )
        for head in range(heads):
            w = weights[r, head]
            largest = w[present[0]]
            for i in range(1, count):
                largest = max(largest, w[present[i]])
            norm = np.float32(0.0)
            for i in range(count):
                w[present[i]] = np.exp(w[present[i]] - largest)
                norm += w[present[i]]
            norm = np.float32(1.0) / norm
            for i in range(count):
                w[present[i]] *= norm
        for head in range(heads):
            summed[:] = np.float32(0.0)
            for i in range(count):
                k = present[i]
                a = weights[r, head, k]
                if factors.shape[0] > 0:
                    a *= factors[r, head, k]
                _add(a, states[state_at[r, k]], total[r, head, :state])
                _add(a, edges[edge_at[r, k]], total[r, head, state:time_at])
                _add(a, phi[i], summed)
            _join(summed, bochner, total[r, head, time_at:])


@compiled
def _backward(
    weights: Any,
    by_total: Any,
    by_folded: Any,
    by_states: Any,
    by_omega: Any,
    by_phase: Any,
    folded: Any,
    states: Any,
    state_at: Any,
    edges: Any,
    edge_at: Any,
    spans: Any,
    mask: Any,
    turns: Any,
    offsets: Any,
    bochner: bool,
    factors: Any,
) -> None:
    """Add the gradients of `_attend`. by_states: [S, w], or no rows where none is asked for

    by_folded: as folded, float64 where all targets share it   by_omega, by_phase: [d] float64
    """
    targets, neighbours = mask.shape
    heads, width = folded.shape[1], folded.shape[2]
    state, edge, half = states.shape[1], edges.shape[1], turns.shape[0]
    time_at = state + edge
    time = width - time_at
    scale = np.float32(1.0 / np.sqrt(half)) if bochner else np.float32(1.0)
    phi = np.empty((neighbours, time), np.float32)
    asked, up = np.empty((heads, time), np.float32), np.empty((heads, time), np.float32)
    by_asked, by_ask = np.empty((heads, time), np.float32), np.empty((heads, time_at), np.float32)
    by_score, by_phi, slope = (
        np.empty((heads, neighbours), np.float32),
        np.empty(time, np.float32),
        np.empty(half, np.float32),
    )
    by_angle, by_angle_and_span = np.empty(half, np.float32), np.empty(half, np.float32)
    present = np.empty(neighbours, np.int64)
    for r in range(targets):
        count = _present(mask[r], present)
        if count == 0:
            continue
        q = min(r, folded.shape[0] - 1)
        ask, upstream = folded[q], by_total[r]
        for head in range(heads):
            _split(ask[head, time_at:], bochner, asked[head])
            _split(upstream[head, time_at:], bochner, up[head])
        for i in range(count):
            k = present[i]
            encode(spans[r, k], turns, offsets, bochner, scale, phi[i])
            h, x = states[state_at[r, k]], edges[edge_at[r, k]]
            for head in range(heads):
                g = _dot(h, upstream[head, :state]) + _dot(x, upstream[head, state:time_at]) + _dot(phi[i], up[head])
                if factors.shape[0] > 0:
                    g *= factors[r, head, k]
                by_score[head, i] = g
        for head in range(heads):
            mean = np.float32(0.0)
            for i in range(count):
                mean += weights[r, head, present[i]] * by_score[head, i]
            for i in range(count):
                by_score[head, i] = weights[r, head, present[i]] * (by_score[head, i] - mean)
        by_asked[:] = np.float32(0.0)
        by_ask[:] = np.float32(0.0)
        by_angle[:] = np.float32(0.0)
        by_angle_and_span[:] = np.float32(0.0)
        for i in range(count):
            k = present[i]
            h, x = states[state_at[r, k]], edges[edge_at[r, k]]
            by_phi[:] = np.float32(0.0)
            for head in range(heads):
                s, a = by_score[head, i], weights[r, head, k]
                if factors.shape[0] > 0:
                    a *= factors[r, head, k]
                _add(s, h, by_ask[head, :state])
                _add(s, x, by_ask[head, state:])
                _add(s, phi[i], by_asked[head])
                _add(a, up[head], by_phi)
                _add(s, asked[head], by_phi)
                if by_states.shape[0] > 0:
                    below = by_states[state_at[r, k]]
                    _add(a, upstream[head, :state], below)
                    _add(s, ask[head, :state], below)
            span = np.float32(spans[r, k])
            if bochner:
                for j in range(half):
                    g = by_phi[half + j] * phi[i, j] - by_phi[j] * phi[i, half + j]
                    by_angle_and_span[j] += span * g
            else:
                for j in range(half):
                    p = spans[r, k] * turns[j] + offsets[j] - 0.25
                    f = np.float32(p - np.rint(p))
                    slope[j] = -sine(np.float32(0.25) - abs(f))
                for j in range(half):
                    g = by_phi[j] * slope[j]
                    by_angle[j] += g
                    by_angle_and_span[j] += span * g
        for head in range(heads):
            for j in range(time_at):
                by_folded[q, head, j] += by_ask[head, j]
            _join(by_asked[head], bochner, by_folded[q, head, time_at:])
        for j in range(half):
            by_omega[j] += by_angle_and_span[j]
            by_phase[j] += by_angle[j]
