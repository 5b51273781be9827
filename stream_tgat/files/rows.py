"""What files are read as: rows, and rows that cannot be read."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    number: of its line as an editor counts it, or of its row in a table; both from 1
    fields: what it holds, without empty cells   raw: its bytes, where they are JSON
    """

    number: int
    fields: dict[str, Any]
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read, and why: what was found, and what was expected."""

    number: int
    reason: str


def place(name: str, unit: str, number: int) -> str:
    """Where a row is, as messages begin. unit: "line" or "row"

    >>> place("events.csv", "line", 7)
    'events.csv, line 7'
    """
    return f"{name}, {unit} {number}"
