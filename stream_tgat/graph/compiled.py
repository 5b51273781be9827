"""Loops over rows, compiled once and kept on disk; they run without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` as machine code, with the types that its signature states for readers."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))
