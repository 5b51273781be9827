"""Loops as machine code, compiled once and kept on disk; they run without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` as machine code, with the types that its signature states for readers."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def compiled_fast(function: Function) -> Function:
    """The same, where sums may be reordered and infinities need no care: for the model's arithmetic alone."""
    return cast(Function, numba.njit(cache=True, nogil=True, fastmath=True, boundscheck=False)(function))
