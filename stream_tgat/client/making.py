"""Dataclasses from what was received."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Kind = Literal["user", "item"]
Vector = NDArray[np.float32]
_T = TypeVar("_T")


def made(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """A dataclass of this module from what was received; fields that it does not know are left out."""
    return kind(**{name: make(content[name]) for name, make in _fields(kind) if name in content})  # type: ignore[arg-type]


@cache
def _fields(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Each field of a dataclass, with what makes its value of what was received: hints are only looked at once."""
    hints = get_type_hints(kind)
    return tuple((each.name, _maker(hints[each.name])) for each in fields(kind))


def _maker(hint: Any) -> Callable[[Any], Any]:
    make = _maker_of_something(hint)
    return lambda value: None if value is None else make(value)


def _maker_of_something(hint: Any) -> Callable[[Any], Any]:
    """What makes a value of a type, None excepted."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _maker(next(each for each in arguments if each is not type(None)))
    if hint == Vector:
        return partial(np.array, dtype=np.float32)
    if is_dataclass(hint):
        return partial(made, hint)  # type: ignore[arg-type]
    if origin is tuple:
        one = _maker(arguments[0])
        return lambda several: tuple(map(one, several))
    if origin is dict:
        of_key = _maker(arguments[1])
        return lambda content: {key: of_key(each) for key, each in content.items()}
    return lambda value: value
