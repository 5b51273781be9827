"""What a cell of text is, where it is plainly a number, or true or false; everything else stays the text that it is.

So it is not decided here what is wrong: whoever asked for a number finds a text, as in a JSON file that has one there.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FLAGS: Final = {"true": True, "false": False}


def number(cell: str) -> int | float | str:
    """The number that a cell is, or the cell. `inf` and `nan` are none, nor is what float64 cannot hold.

    >>> number("7"), number(" 2.50"), number("nan"), number("1e999"), number("3,5")
    (7, 2.5, 'nan', '1e999', '3,5')
    """
    text = cell.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        found = float(text)
        if math.isfinite(found):
            return found
    return cell


def flag(cell: str) -> bool | int | float | str:
    """True or false in any case, or a number; else the cell.

    >>> flag("True"), flag("0"), flag("yes")
    (True, 0, 'yes')
    """
    found = _FLAGS.get(cell.strip().lower())
    return number(cell) if found is None else found


def numbers(cell: str) -> list[int | float | str]:
    """The parts of a cell, between spaces, commas or semicolons and perhaps in brackets, each as `number` reads it.

    >>> numbers("[0.5, -1]"), numbers("1;2"), numbers("1 x")
    ([0.5, -1], [1, 2], [1, 'x'])
    """
    return [number(part) for part in cell.strip("[] ").replace(",", " ").replace(";", " ").split()]


def number_column(cells: Sequence[str]) -> tuple[NDArray[np.float64], list[int]]:
    """A column of cells as numbers: float64 [n], NaN where a cell is empty; and the places of those that are none."""
    found = np.full(len(cells), np.nan)
    wrong = []
    for at, cell in enumerate(cells):
        if cell:
            value = number(cell)
            if isinstance(value, str):
                wrong.append(at)
            else:
                found[at] = value
    return found, wrong
