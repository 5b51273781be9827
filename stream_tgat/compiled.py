"""Loops as machine code, compiled once and kept on disk; they run without Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` as machine code, with the types that its signature states for readers.

    It may make no arrays, only views of those that it is given: then references to them need not be counted, and two
    atomic operations wherever one is looked at were a tenth of what a worker did.
    """
    return _compiled(function)


def compiled_with_arrays(function: Function) -> Function:
    """The same, where arrays are made: for what does much before it looks at an array again."""
    return _compiled(function, makes_arrays=True)


def compiled_fast(function: Function) -> Function:
    """As `compiled`, where sums may be reordered and infinities need no care: for the model's arithmetic alone."""
    return _compiled(function, is_fast=True)


def compiled_fast_with_arrays(function: Function) -> Function:
    """As `compiled_fast`, where arrays are made."""
    return _compiled(function, makes_arrays=True, is_fast=True)


def is_compiled() -> bool:
    """Whether numba keeps machine code of the engine beside it; where NUMBA_CACHE_DIR names another place, always.

    Training compiles loops of its own, so what is beside other modules says nothing of a worker's.
    """
    return "NUMBA_CACHE_DIR" in os.environ or any((Path(__file__).parent / "engine").rglob("*.nbi"))


def _compiled(function: Function, *, makes_arrays: bool = False, is_fast: bool = False) -> Function:
    arithmetic = {"fastmath": True, "boundscheck": False} if is_fast else {}
    return cast(Function, numba.njit(cache=True, nogil=True, _nrt=makes_arrays, **arithmetic)(function))
