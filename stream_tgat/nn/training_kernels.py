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

from stream_tgat.compiled import compiled_fast, compiled_fast_with_arrays
from stream_tgat.nn.loops import add, add_2, add_4, dot, dot_4, encode, rows_4, sine
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


@compiled_fast
def _present(mask: Any, places: Any) -> Any:
    """The places of a target's neighbours that exist: ?[K] into the first of i8[K]; how many."""
    count = 0
    for k in range(mask.shape[0]):
        if mask[k]:
            places[count] = k
            count += 1
    return count


@compiled_fast
def _dots(
    of_h: Any, of_x: Any, of_p: Any, states: Any, h_at: Any, edges: Any, x_at: Any, phi: Any, count: int, out: Any
) -> None:
    """[of_h ‖ of_x ‖ of_p] · z_i of the first `count` neighbours, into out: [K].

    h_at, x_at: i8[K], their rows of states and edges   phi: [K, T]
    """
    state, edge, i = of_h.shape[0], of_x.shape[0], 0
    while i + 4 <= count:
        h = dot_4(of_h, *rows_4(states, h_at[i], h_at[i + 1], h_at[i + 2], h_at[i + 3], 0, state))
        x = dot_4(of_x, *rows_4(edges, x_at[i], x_at[i + 1], x_at[i + 2], x_at[i + 3], 0, edge))
        p = dot_4(of_p, phi[i], phi[i + 1], phi[i + 2], phi[i + 3])
        for k in range(4):
            out[i + k] = h[k] + x[k] + p[k]
        i += 4
    while i < count:
        out[i] = dot(of_h, states[h_at[i]]) + dot(of_x, edges[x_at[i]]) + dot(of_p, phi[i])
        i += 1


@compiled_fast
def _sums(
    a: Any, states: Any, h_at: Any, edges: Any, x_at: Any, phi: Any, count: int, to_h: Any, to_x: Any, to_p: Any
) -> None:
    """[to_h ‖ to_x ‖ to_p] += Σ a_i z_i of the first `count` neighbours; as `_dots`."""
    state, edge, i = to_h.shape[0], to_x.shape[0], 0
    while i + 4 <= count:
        a_0, a_1, a_2, a_3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        z_0, z_1, z_2, z_3 = rows_4(states, h_at[i], h_at[i + 1], h_at[i + 2], h_at[i + 3], 0, state)
        add_4(a_0, z_0, a_1, z_1, a_2, z_2, a_3, z_3, to_h)
        z_0, z_1, z_2, z_3 = rows_4(edges, x_at[i], x_at[i + 1], x_at[i + 2], x_at[i + 3], 0, edge)
        add_4(a_0, z_0, a_1, z_1, a_2, z_2, a_3, z_3, to_x)
        add_4(a_0, phi[i], a_1, phi[i + 1], a_2, phi[i + 2], a_3, phi[i + 3], to_p)
        i += 4
    while i < count:
        add(a[i], states[h_at[i]], to_h)
        add(a[i], edges[x_at[i]], to_x)
        add(a[i], phi[i], to_p)
        i += 1


@compiled_fast
def _split(values: Any, bochner: bool, out: Any) -> None:
    """Time block as the kernels hold it: for Bochner all cosines, then all sines."""
    half = values.shape[0] // 2
    if bochner:
        for j in range(half):
            out[j], out[half + j] = values[2 * j], values[2 * j + 1]
    else:
        for j in range(values.shape[0]):
            out[j] = values[j]


@compiled_fast
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


@compiled_fast_with_arrays
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
    present, h_at, x_at = np.empty(neighbours, np.int64), np.empty(neighbours, np.int64), np.empty(neighbours, np.int64)
    found = np.empty(neighbours, np.float32)
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
            h_at[i], x_at[i] = state_at[r, k], edge_at[r, k]
        for head in range(heads):
            of_h, of_x = ask[head, :state], ask[head, state:time_at]
            _dots(of_h, of_x, asked[head], states, h_at, edges, x_at, phi, count, found)
            for i in range(count):
                weights[r, head, present[i]] = found[i]
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
                found[i] = weights[r, head, present[i]]
                if factors.shape[0] > 0:
                    found[i] *= factors[r, head, present[i]]
            of_h, of_x = total[r, head, :state], total[r, head, state:time_at]
            _sums(found, states, h_at, edges, x_at, phi, count, of_h, of_x, summed)
            _join(summed, bochner, total[r, head, time_at:])


@compiled_fast_with_arrays
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
    present, h_at, x_at = np.empty(neighbours, np.int64), np.empty(neighbours, np.int64), np.empty(neighbours, np.int64)
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
            h_at[i], x_at[i] = state_at[r, k], edge_at[r, k]
        for head in range(heads):
            of_h, of_x = upstream[head, :state], upstream[head, state:time_at]
            _dots(of_h, of_x, up[head], states, h_at, edges, x_at, phi, count, by_score[head])
            for i in range(count):
                if factors.shape[0] > 0:
                    by_score[head, i] *= factors[r, head, present[i]]
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
        for head in range(heads):
            to_h, to_x = by_ask[head, :state], by_ask[head, state:]
            _sums(by_score[head], states, h_at, edges, x_at, phi, count, to_h, to_x, by_asked[head])
        for i in range(count):
            k = present[i]
            by_phi[:] = np.float32(0.0)
            for head in range(heads):
                s, a = by_score[head, i], weights[r, head, k]
                if factors.shape[0] > 0:
                    a *= factors[r, head, k]
                add_2(a, up[head], s, asked[head], by_phi)
                if by_states.shape[0] > 0:
                    add_2(a, upstream[head, :state], s, ask[head, :state], by_states[h_at[i]])
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
