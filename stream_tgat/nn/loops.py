"""Small loops that inference and training share: sums and products of vectors, and the time encoding of one span."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from stream_tgat.compiled import compiled_fast
from stream_tgat.nn.time_encoding import TURN

# sin(2πg) = g (S_0 + S_1 g² + …) for |g| ≤ 1/4; the series' next term is 6e-8 there, one rounding of a float32.
_S: Final = tuple((-1) ** k * TURN ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(6))
S0, S1, S2, S3, S4, S5 = (np.float32(s) for s in _S)


@compiled_fast
def sine(g: Any) -> Any:
    """sin(2πg) for |g| ≤ 1/4."""
    y = g * g
    return g * (S0 + y * (S1 + y * (S2 + y * (S3 + y * (S4 + y * S5)))))


@compiled_fast
def encode(span: float, turns: Any, phase: Any, bochner: bool, scale: Any, out: Any) -> None:
    """Φ(Δt) into out: f4[T]; for Bochner all cosines, then all sines, so that the loop is one of vectors.

    turns, phase: f8[d], ω/2π and φ/2π, which is 0 for Bochner   scale: of the result
    """
    count, quarter = turns.shape[0], np.float32(0.25)
    cosines, sines = out[:count], out[count:]
    if bochner:
        for j in range(count):
            p = span * turns[j]
            f = np.float32(p - np.rint(p))
            g = quarter - abs(abs(f) - quarter)  # the same sine but for its sign, within a quarter
            cosines[j] = scale * sine(quarter - abs(f))
            sines[j] = scale * sine(g if f >= np.float32(0.0) else -g)
    else:
        for j in range(count):
            p = span * turns[j] + phase[j]
            f = np.float32(p - np.rint(p))
            cosines[j] = scale * sine(quarter - abs(f))


@compiled_fast
def dot(a: Any, b: Any) -> Any:
    """The inner product a · b."""
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled_fast
def dot_4(a: Any, b_0: Any, b_1: Any, b_2: Any, b_3: Any) -> Any:
    """As `dot`, of four: a is read once, and four sums run side by side."""
    s_0 = s_1 = s_2 = s_3 = np.float32(0.0)
    for j in range(a.shape[0]):
        s_0 += a[j] * b_0[j]
        s_1 += a[j] * b_1[j]
        s_2 += a[j] * b_2[j]
        s_3 += a[j] * b_3[j]
    return s_0, s_1, s_2, s_3


@compiled_fast
def dot_4_of_2(a: Any, c: Any, b_0: Any, b_1: Any, b_2: Any, b_3: Any) -> Any:
    """As `dot_4`, of two vectors: each of the four is read once. Two tuples of four."""
    s_0 = s_1 = s_2 = s_3 = np.float32(0.0)
    t_0 = t_1 = t_2 = t_3 = np.float32(0.0)
    for j in range(a.shape[0]):
        s_0 += a[j] * b_0[j]
        s_1 += a[j] * b_1[j]
        s_2 += a[j] * b_2[j]
        s_3 += a[j] * b_3[j]
        t_0 += c[j] * b_0[j]
        t_1 += c[j] * b_1[j]
        t_2 += c[j] * b_2[j]
        t_3 += c[j] * b_3[j]
    return (s_0, s_1, s_2, s_3), (t_0, t_1, t_2, t_3)


@compiled_fast
def add(scale: Any, values: Any, to: Any) -> None:
    """Add scale · values."""
    for j in range(to.shape[0]):
        to[j] += scale * values[j]


@compiled_fast
def add_2(a_0: Any, x_0: Any, a_1: Any, x_1: Any, to: Any) -> None:
    """Add a_0 · x_0 + a_1 · x_1."""
    for j in range(to.shape[0]):
        to[j] += a_0 * x_0[j] + a_1 * x_1[j]


@compiled_fast
def add_4(a_0: Any, x_0: Any, a_1: Any, x_1: Any, a_2: Any, x_2: Any, a_3: Any, x_3: Any, to: Any) -> None:
    """Add Σ a_i · x_i of four: `to` is read and written once."""
    for j in range(to.shape[0]):
        to[j] += a_0 * x_0[j] + a_1 * x_1[j] + a_2 * x_2[j] + a_3 * x_3[j]


@compiled_fast
def add_4_to_2(a: Any, b: Any, x_0: Any, x_1: Any, x_2: Any, x_3: Any, to_a: Any, to_b: Any) -> None:
    """Add Σ a_i · x_i of four to one, and Σ b_i · x_i to another: each of the four is read once."""
    a_0, a_1, a_2, a_3 = a
    b_0, b_1, b_2, b_3 = b
    for j in range(to_a.shape[0]):
        to_a[j] += a_0 * x_0[j] + a_1 * x_1[j] + a_2 * x_2[j] + a_3 * x_3[j]
        to_b[j] += b_0 * x_0[j] + b_1 * x_1[j] + b_2 * x_2[j] + b_3 * x_3[j]


@compiled_fast
def rows_4(table: Any, a: int, b: int, c: int, d: int, begin: int, count: int) -> Any:
    """Columns begin … begin + count of four rows."""
    end = begin + count
    return table[a, begin:end], table[b, begin:end], table[c, begin:end], table[d, begin:end]
