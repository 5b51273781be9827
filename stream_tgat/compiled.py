"""Loops as machine code, compiled once and kept on disk; they run without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` as machine code, with the types that its signature states for readers.

    It may make no arrays, only views of those that it is given: then references to them need not be counted, and two
    atomic operations wherever one is looked at were a tenth of what a worker did.
    """
    return cast(Function, numba.njit(cache=True, nogil=True, _nrt=False)(function))


def compiled_with_arrays(function: Function) -> Function:
    """The same, where arrays are made: for what does much before it looks at an array again."""
    return cast(Function, numba.njit(cache=True, nogil=True, _nrt=True)(function))


def compiled_fast(function: Function) -> Function:
    """As `compiled`, where sums may be reordered and infinities need no care: for the model's arithmetic alone."""
    return cast(Function, numba.njit(cache=True, nogil=True, fastmath=True, boundscheck=False, _nrt=False)(function))


def compiled_fast_with_arrays(function: Function) -> Function:
    """As `compiled_fast`, where arrays are made."""
    return cast(Function, numba.njit(cache=True, nogil=True, fastmath=True, boundscheck=False, _nrt=True)(function))
