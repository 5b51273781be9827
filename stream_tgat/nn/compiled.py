"""What the kernels have in common: how they are compiled, and the time encoding of one span."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

from stream_tgat.nn.time_encoding import TURN

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Machine code that may reorder sums, without Python's lock."""
    return cast(Function, numba.njit(cache=True, nogil=True, fastmath=True, boundscheck=False)(function))


# sin(2πg) = g (S_0 + S_1 g² + …) for |g| ≤ 1/4; the series' next term is 6e-8 there, one rounding of a float32.
_S: Final = tuple((-1) ** k * TURN ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(6))
S0, S1, S2, S3, S4, S5 = (np.float32(s) for s in _S)


@compiled
def sine(g: Any) -> Any:
    """sin(2πg) for |g| ≤ 1/4."""
    y = g * g
    return g * (S0 + y * (S1 + y * (S2 + y * (S3 + y * (S4 + y * S5)))))


@compiled
def encode(span: float, turns: Any, phase: Any, bochner: bool, scale: Any, out: Any) -> None:
    """Φ(Δt) into out: f4[T]; for Bochner all cosines, then all sines, so that both loops are vectors.

    turns, phase: f8[d], ω/2π and φ/2π   scale: of the result
    """
    count = turns.shape[0]
    for j in range(count):
        p = span * turns[j] + phase[j]
        f = np.float32(p - np.rint(p))
        out[j] = scale * sine(np.float32(0.25) - abs(f))
    if bochner:
        for j in range(count):
            p = span * turns[j] - 0.25
            f = np.float32(p - np.rint(p))
            out[count + j] = scale * sine(np.float32(0.25) - abs(f))
