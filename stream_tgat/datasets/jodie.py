"""Reads the interaction files of JODIE (wikipedia.csv, reddit.csv, mooc.csv, lastfm.csv), for those who have them.

The format: a header line `user_id,item_id,timestamp,state_label,comma_separated_list_of_features`, then a line for each
interaction in the order of time: integer ids of users and of items, seconds since the first event, 0 or 1 (the user's
state changes with this interaction: banned, dropped out), and the same number of features on every line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.files import open_file
from stream_tgat.graph.interactions import Interactions

_HEADER = (b"user_id", b"item_id", b"timestamp", b"state_label")
_CHUNK_ROWS = 20_000
_LARGEST = 2**31  # ids are places in arrays


@dataclass(frozen=True)
class JodieRow:
    """One line.

    time: seconds since the first event   changed: state_label   features: as many numbers as every line has
    """

    user: str
    item: str
    time: float
    changed: bool
    features: list[float]


@dataclass(frozen=True)
class JodieData:
    """A whole file as parallel arrays of length n, in the order of the file, which is that of time.

    user, item: int64, as in the file   time: float64   changed: bool   features: float32 [n, E]
    """

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    time: NDArray[np.float64]
    changed: NDArray[np.bool_]
    features: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.time)

    def interactions(self) -> Interactions:
        """One space of nodes, items numbered after the users. Features that are zero on every line are left out:
        LastFM has no others.
        """
        says_something = (self.features != 0).any(0)
        item = self.item + int(self.user.max(initial=-1)) + 1
        return Interactions.in_time_order(self.user, item, self.time, self.features[:, says_something])


def jodie_rows(file: BinaryIO, name: str) -> Iterator[JodieRow]:
    r"""The lines of an open file, one by one; `name` is for messages.

    >>> import io
    >>> text = b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n7,3,36.0,1,-0.5,0.25\n"
    >>> next(jodie_rows(io.BytesIO(text), "example.csv"))
    JodieRow(user='7', item='3', time=36.0, changed=True, features=[-0.5, 0.25])
    """
    _check_header(file, name)
    width = last = None
    for number, line in enumerate(file, start=2):
        fields = line.rstrip(b"\r\n").split(b",")
        if fields == [b""]:
            continue
        try:
            user, item, state = int(fields[0]), int(fields[1]), float(fields[3])
            time, features = float(fields[2]), [float(field) for field in fields[4:]]
        except (ValueError, IndexError) as problem:
            raise DataError(f"{name}, line {number}: not a line of numbers in the JODIE format ({problem})") from None
        if width not in (None, len(features)):
            raise DataError(f"{name}, line {number}: {len(features)} features, but {width} on the lines before")
        if not (0 <= user < _LARGEST and 0 <= item < _LARGEST):
            raise DataError(f"{name}, line {number}: ids {user} and {item}; they must be counted from 0")
        if not (isfinite(time) and all(map(isfinite, features))):
            raise DataError(f"{name}, line {number}: a number that is not finite; remove the line or fill it in")
        if state not in (0, 1):
            raise DataError(f"{name}, line {number}: state_label is {state:g}; it must be 0 or 1")
        if last is not None and time < last:
            raise DataError(f"{name}, line {number}: the time {time!r} is before that of the line above ({last!r})")
        width, last = len(features), time
        yield JodieRow(str(user), str(item), time, state == 1, features)


def is_jodie(path: Path) -> bool:
    """Whether a file begins as these do; DataError if it cannot be read."""
    header = b",".join(_HEADER)
    with open_file(path) as file:
        return file.content.peek(len(header))[: len(header)] == header


def load_jodie(path: Path) -> JodieData:
    """The whole file; a part of it at a time is held as text, so that memory is that of the arrays."""
    with open_file(path) as file:
        rows = jodie_rows(file.content, path.name)
        parts = [_arrays(chunk) for chunk in iter(lambda: list(islice(rows, _CHUNK_ROWS)), [])]
    if not parts:
        raise DataError(f"{path}: no interaction in it")
    return JodieData(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in JodieData.__dataclass_fields__)
    )


def _arrays(rows: list[JodieRow]) -> JodieData:
    return JodieData(
        np.array([int(row.user) for row in rows], np.int64),
        np.array([int(row.item) for row in rows], np.int64),
        np.array([row.time for row in rows], np.float64),
        np.array([row.changed for row in rows], np.bool_),
        np.array([row.features for row in rows], np.float32).reshape(len(rows), -1),
    )


def _check_header(file: BinaryIO, name: str) -> None:
    header = tuple(field.strip() for field in file.readline().split(b",")[:4])
    if header != _HEADER:
        raise DataError(
            f"{name}: the first line must be {b','.join(_HEADER).decode()},comma_separated_list_of_features, "
            f"not {b','.join(header).decode(errors='replace')[:80]!r}"
        )
