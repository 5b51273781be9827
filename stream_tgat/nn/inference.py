"""One layer for inference on a CPU, reading neighbours where they lie: no gather, no key, no time encoding in memory.

The loop over a target's neighbours forms Φ(Δt), the scores, the softmax and the weighted sum in one go; it runs to the
number of neighbours that exist, so nothing is masked. What surrounds it is `TGAT.layer`, to rounding the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from stream_tgat.compiled import compiled_fast
from stream_tgat.nn.attention import Attention
from stream_tgat.nn.heads import PredictionHeads
from stream_tgat.nn.loops import add_4, add_4_to_2, dot_4, dot_4_of_2, encode
from stream_tgat.nn.tgat import TGAT, FeedForward
from stream_tgat.nn.time_encoding import TURN, TimeEncoding

FloatArray = NDArray[np.float32]
LINE: Final = 16  # floats of a cache line


class NeighbourPlaces(NamedTuple):
    """Where the neighbours of R targets lie.

    payload: f4[S, W], rows of which floats [0, E) are edge features and [state, state + w) the state h^(l-1)
    slots: i4[R, K], rows seen by each target, of which the first counts [R] (i4) exist   spans: f8[R, K], t − t_i
    """

    payload: NDArray[np.float32]
    state: int
    slots: NDArray[np.int32]
    counts: NDArray[np.int32]
    spans: NDArray[np.float64]


class InferenceEncoder:
    """The layers of an encoder whose weights do not change any more."""

    def __init__(self, encoder: TGAT) -> None:
        self._encoding = _FrozenEncoding(encoder.time_encoding)
        self._merge_raw = encoder.preset.merge_raw
        with torch.no_grad():
            zero = encoder.time_encoding.at_zero(torch.float32)
            self._layers = [
                _FrozenLayer(cast(Attention, attention), cast(FeedForward, merge), zero, self._encoding.order)
                for attention, merge in zip(encoder.attention, encoder.merge, strict=True)
            ]

    def layer(self, layer: int, own: Sequence[FloatArray], rows: NeighbourPlaces) -> tuple[FloatArray, FloatArray]:
        """h^(l) of R targets from the layer below, as `TGAT.layer`.

        layer: 1 … L   own: h^(0 … l-1)(t) of the targets, each [R, w] float32
        Returns h^(l) [R, D] and the attention weights [R, H, K].
        """
        frozen, state = self._layers[layer - 1], own[layer - 1]
        folded = frozen.folded_query(state)
        total = np.empty((folded.shape[0], len(rows.slots), folded.shape[2]), np.float32)
        weights = np.empty((len(rows.slots), folded.shape[0], rows.slots.shape[1]), np.float32)
        encoding, places = self._encoding, -(-rows.slots.shape[1] // 4) * 4
        z, w = np.zeros((places, folded.shape[2]), np.float32), np.empty((2, places), np.float32)
        attend_rows(
            folded,
            rows.payload,
            rows.state,
            frozen.state,
            frozen.edge,
            rows.slots,
            rows.counts,
            rows.spans,
            encoding.turns,
            encoding.phase,
            encoding.bochner,
            z,
            w,
            total,
            weights,
        )
        return frozen.merge(frozen.finish(total, state), own[0] if self._merge_raw else state), weights


class FrozenHeads:
    """Prediction heads and their calibration."""

    def __init__(self, heads: PredictionHeads, calibration: Tensor) -> None:
        self._lowest, self._highest = _array(heads.lowest), _array(heads.highest)
        self._layers = [(_array(w), _array(b)) for w, b in zip(heads.weights, heads.biases, strict=True)]
        self._members = heads.members
        self._slope, self._offset = _array(calibration).T

    def predict(self, embedding: FloatArray, event: FloatArray) -> FloatArray:
        """As `Model.predict`: embedding [R, D], event [R, E + S]; [R, heads]."""
        state = np.concatenate([embedding, event], 1)
        np.minimum(np.maximum(state, self._lowest, out=state), self._highest, out=state)
        for depth, (weight, bias) in enumerate(self._layers):
            if depth:
                np.maximum(state, 0.0, out=state)
            state = state @ weight  # [networks, R, out]
            state += bias
        logits = state[..., 0].reshape(-1, self._members, len(embedding)).mean(1).T
        with np.errstate(over="ignore"):  # e^-x is infinite then, and the probability 0
            probabilities: FloatArray = 1.0 / (1.0 + np.exp(-(logits * self._slope + self._offset)))
        return probabilities


class _FrozenEncoding:
    """Frequencies and phases in turns, and the order in which the kernel has the encoding's numbers."""

    def __init__(self, encoding: TimeEncoding) -> None:
        with torch.no_grad():
            self.turns = _array(encoding.frequencies() / TURN)
            self.phase = np.zeros_like(self.turns) if encoding.phase is None else _array(encoding.phase.double() / TURN)
        self.bochner = encoding.bochner
        numbers = np.arange(encoding.width)
        self.order = np.concatenate([numbers[0::2], numbers[1::2]]) if encoding.bochner else numbers


class _FrozenLayer:
    """Weights as NumPy arrays, head by head, so that a layer is a handful of matrix products."""

    def __init__(self, attention: Attention, merge: FeedForward, zero: Tensor, order: NDArray[np.int64]) -> None:
        """order: of the time encoding's numbers in the kernel."""
        self.state, self.edge, self.heads = attention.state, attention.edge, attention.heads
        width = attention.head_width
        self._query = _array(attention.query[: self.state])
        self._query_at_zero = _array(zero @ attention.query[self.state :])
        at = self.state + self.edge
        inputs = torch.cat([torch.arange(at), at + torch.from_numpy(order)])
        self._keys = _array(attention.key[inputs].view(-1, self.heads, width).permute(1, 2, 0) * width**-0.5)
        self._values = _array(attention.value[inputs].view(-1, self.heads, width).transpose(0, 1))
        self._residual = attention.residual
        if self._residual:
            self._query_edge, self._zero = attention.query_edge, _array(zero)
            self._output, self._output_bias = _array(attention.output), _array(attention.output_bias)
            self._gain, self._shift = _array(attention.norm.weight), _array(attention.norm.bias)
            self._eps = np.float32(attention.norm.eps)
        self._weight_0, self._bias_0 = _array(merge.weight_0), _array(merge.bias_0)
        self._weight_1, self._bias_1 = _array(merge.weight_1), _array(merge.bias_1)
        self._always = None if self.state else self._fold(self._query_at_zero[None])

    def folded_query(self, own: FloatArray) -> FloatArray:
        """As `Attention.folded_query`, heads first: [H, R, w + E + T], or [H, 1, E + T] where there is no state.

        The time's numbers are in the kernel's order.
        """
        if self._always is not None:
            return self._always
        query = own @ self._query
        query += self._query_at_zero
        return self._fold(query)

    def _fold(self, query: FloatArray) -> FloatArray:
        per_head = query.reshape(len(query), self.heads, self._keys.shape[1]).transpose(1, 0, 2)
        folded: FloatArray = np.matmul(per_head, self._keys)
        return folded

    def finish(self, total: FloatArray, own: FloatArray) -> FloatArray:
        """As `Attention.finish`; total: [H, R, w + E + T]."""
        heads, rows, _ = total.shape
        aggregate = np.empty((rows, heads, self._values.shape[2]), np.float32)
        np.matmul(total, self._values, out=aggregate.transpose(1, 0, 2))
        flat: FloatArray = aggregate.reshape(rows, aggregate.shape[1] * aggregate.shape[2])
        if not self._residual:
            return flat
        result: FloatArray = flat @ self._output
        result += self._output_bias
        result[:, : self.state] += own
        result[:, self.state + self._query_edge :] += self._zero
        result -= result.mean(1, keepdims=True)
        result /= np.sqrt((result * result).mean(1, keepdims=True) + self._eps)
        result *= self._gain
        result += self._shift
        return result

    def merge(self, aggregate: FloatArray, kept: FloatArray) -> FloatArray:
        """As `FeedForward`, of [aggregate ‖ kept]."""
        split = aggregate.shape[1]
        hidden = aggregate @ self._weight_0[:split]
        if kept.shape[1]:
            hidden += kept @ self._weight_0[split:]
        hidden += self._bias_0
        np.maximum(hidden, 0.0, out=hidden)
        result: FloatArray = hidden @ self._weight_1
        result += self._bias_1
        return result


def _array(tensor: Tensor) -> Any:
    """A contiguous copy."""
    return np.array(tensor.detach().numpy(), order="C")


def _prefetching(_: Any, array: Any, row: Any, column: Any) -> Any:  # noqa: ARG001 their types are given
    """Ask for the cache line of array[row, column], which will be read soon."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, byte, integer = signature.args[0], ir.IntType(8), ir.IntType(32)
        view = context.make_array(kind)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, kind, view, list(arguments[1:]))
        address = builder.bitcast(pointer, ir.PointerType(byte))
        shape = ir.FunctionType(ir.VoidType(), [address.type, integer, integer, integer])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        # Into the second level: the next target's rows would not fit into the first beside what is worked on.
        read, nearness, data = (ir.Constant(integer, value) for value in (0, 2, 1))
        builder.call(function, [address, read, nearness, data])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), emit


_prefetch: Any = intrinsic(_prefetching)


@compiled_fast
def attend_rows(
    folded: NDArray[np.float32],
    payload: NDArray[np.float32],
    state_at: int,
    state: int,
    edge: int,
    slots: NDArray[np.int32],
    counts: NDArray[np.int32],
    spans: NDArray[np.float64],
    turns: NDArray[np.float64],
    phase: NDArray[np.float64],
    bochner: bool,
    z: NDArray[np.float32],
    w: NDArray[np.float32],
    total: NDArray[np.float32],
    weights: NDArray[np.float32],
) -> None:
    """Scores, softmax and weighted sum of each target's neighbours z_i = [h_i ‖ x_i ‖ Φ(t − t_i)].

    Φ is as `encode` has it, for Bochner all cosines before all sines.
    folded: [H, R or 1, w + E + T], what the targets ask   state_at, state, edge: where h_i begins in a row, w, E
    turns, phase: [d] float64, ω/2π and φ/2π   z: [P, w + E + T], w: [2, P], to work with: P ≥ K, a multiple of 4, and
    zero before the first call   total: [H, R, w + E + T], filled   weights: [R, H, K], filled
    """
    targets = slots.shape[0]
    heads = folded.shape[0]
    half = turns.shape[0]
    scale = np.float32(1.0 / np.sqrt(half)) if bochner else np.float32(1.0)
    for r in range(targets):
        count = counts[r]
        weights[r] = np.float32(0.0)
        if count == 0:
            for head in range(heads):
                total[head, r, :] = np.float32(0.0)
            continue
        for i in range(count):
            if r + 1 < targets and i < counts[r + 1]:
                # The next target's rows lie anywhere: fetching them meanwhile nearly halves the time of a large arena.
                ahead = np.int64(slots[r + 1, i])
                for j in range(0, edge, LINE):
                    _prefetch(payload, ahead, j)
                for j in range(state_at, state_at + state, LINE):
                    _prefetch(payload, ahead, j)
            row = payload[slots[r, i]]
            _copy(row[state_at : state_at + state], z[i, :state])
            _copy(row[:edge], z[i, state : state + edge])
            encode(spans[r, i], turns, phase, bochner, scale, z[i, state + edge :])
        # Four neighbours and two heads at a time: what is asked and the neighbours are read half as often. Beyond the
        # neighbours that exist is what was there before, with weight zero.
        q = min(r, folded.shape[1] - 1)
        for a in range(0, heads - 1, 2):
            b, w_a, w_b = a + 1, w[0], w[1]
            for i in range(0, count, 4):
                at_a, at_b = dot_4_of_2(folded[a, q], folded[b, q], z[i], z[i + 1], z[i + 2], z[i + 3])
                w_a[i], w_a[i + 1], w_a[i + 2], w_a[i + 3] = at_a
                w_b[i], w_b[i + 1], w_b[i + 2], w_b[i + 3] = at_b
            _softmax(w_a, count, weights[r, a])
            _softmax(w_b, count, weights[r, b])
            total[a, r, :] = np.float32(0.0)
            total[b, r, :] = np.float32(0.0)
            for i in range(0, count, 4):
                of_a = w_a[i], w_a[i + 1], w_a[i + 2], w_a[i + 3]
                of_b = w_b[i], w_b[i + 1], w_b[i + 2], w_b[i + 3]
                add_4_to_2(of_a, of_b, z[i], z[i + 1], z[i + 2], z[i + 3], total[a, r], total[b, r])
        if heads % 2:
            a, w_a = heads - 1, w[0]
            for i in range(0, count, 4):
                w_a[i], w_a[i + 1], w_a[i + 2], w_a[i + 3] = dot_4(folded[a, q], z[i], z[i + 1], z[i + 2], z[i + 3])
            _softmax(w_a, count, weights[r, a])
            total[a, r, :] = np.float32(0.0)
            for i in range(0, count, 4):
                add_4(w_a[i], z[i], w_a[i + 1], z[i + 1], w_a[i + 2], z[i + 2], w_a[i + 3], z[i + 3], total[a, r])


@compiled_fast
def _softmax(w: Any, count: int, out: Any) -> None:
    """The softmax of the first `count` scores into w and out; what follows in w is zero, up to a multiple of 4."""
    largest = w[0]
    for i in range(1, count):
        largest = max(largest, w[i])
    norm = np.float32(0.0)
    for i in range(count):
        w[i] = math.exp(w[i] - largest)
        norm += w[i]
    norm = np.float32(1.0) / norm
    for i in range(count):
        w[i] *= norm
        out[i] = w[i]
    for i in range(count, (count + 3) // 4 * 4):
        w[i] = np.float32(0.0)


@compiled_fast
def _copy(values: Any, to: Any) -> None:
    for j in range(to.shape[0]):
        to[j] = values[j]
