"""The list of all scenarios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.trial import Trial


@dataclass(frozen=True)
class Scenario:
    """One of them. about: what goes wrong, in a sentence   replicated: it needs three brokers"""

    name: str
    about: str
    play: Callable[[Trial], None]
    replicated: bool


SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Callable[[Trial], None]) -> Callable[[Trial], None]:
    """Put a function on the list; its docstring says what goes wrong."""
    _register(play, replicated=False)
    return play


def replicated(play: Callable[[Trial], None]) -> Callable[[Trial], None]:
    """Put a function on the list that needs three brokers."""
    _register(play, replicated=True)
    return play


def _register(play: Callable[[Trial], None], *, replicated: bool) -> None:
    assert play.__doc__ is not None
    name = play.__name__.replace("_", " ")
    SCENARIOS[name] = Scenario(name, " ".join(play.__doc__.split()), play, replicated)
