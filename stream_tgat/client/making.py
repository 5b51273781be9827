"""Dataclasses from what was received."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Kind = Literal["user", "item"]
Vector = NDArray[np.float32]
_T = TypeVar("_T")


def made(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """A dataclass of this module from what was received; fields that it does not know are left out."""
    hints = _hints(kind)  # type: ignore[arg-type]
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], content[name]) for name in names if name in content})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _value(next(each for each in arguments if each is not type(None)), value)
    if hint == Vector:
        return np.array(value, np.float32)
    if is_dataclass(hint):
        return made(hint, value)  # type: ignore[arg-type]
    if origin is tuple:
        return tuple(_value(arguments[0], each) for each in value)
    if origin is dict:
        return {key: _value(arguments[1], each) for key, each in value.items()}
    return value
