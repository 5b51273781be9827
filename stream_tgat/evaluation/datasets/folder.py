"""Data sets that lie as a folder: `events.csv.gz`, `meta.json`, and perhaps `edge_features.npz`, `node_features.npz`.

events.csv.gz has the columns user,item,timestamp,label, by time; ids count from 0, label is −1 where there is none.
"""

import gzip
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.evaluation.datasets.check import DataReport, check_rows, refuse_errors
from stream_tgat.graph.interactions import Interactions

EVENTS = "events.csv.gz"
LARGEST = 2**31
"""Ids are places in arrays, so none is as large as this."""

HEADER = "user,item,timestamp,label"


@dataclass(frozen=True, eq=False)
class Folder:
    """A data set of a folder. In a bipartite one, items are numbered after the users.

    label: [n] int8, of each interaction; −1 unknown
    node_features: [N, F] float32 or None; users and items have columns of their own, zero for the others
    """

    name: str
    interactions: Interactions
    label: NDArray[np.int8]
    node_features: NDArray[np.float32] | None
    bipartite: bool
    meta: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows in the order of the file: source, destination, time, edge as in `Interactions`, label as in `Folder`."""

    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    time: NDArray[np.float64]
    edge: NDArray[np.float32]
    label: NDArray[np.int8]


def load_folder(folder: Path) -> Folder:
    """Read a data set; DataError says which file is missing, or what is wrong with it in which row."""
    meta = _meta(folder / "meta.json")
    bipartite = bool(meta.get("bipartite", True))
    rows = _rows(folder, bipartite)
    refuse_errors(str(folder / EVENTS), rows.source, rows.destination, rows.time, rows.edge)
    order = np.argsort(rows.time, kind="stable")
    interactions = Interactions.in_time_order(rows.source, rows.destination, rows.time, rows.edge)
    node_features = _side_by_side(_arrays(folder / "node_features.npz", "user", "item"))
    if node_features is not None and not np.isfinite(node_features).all():
        raise DataError(f"{folder / 'node_features.npz'} holds numbers that are not finite; fill them in")
    return Folder(folder.name, interactions, rows.label[order], node_features, bipartite, meta)


def check_folder(folder: Path) -> DataReport:
    """What is remarkable in the interactions of a data set, and what is wrong with them."""
    rows = _rows(folder, bool(_meta(folder / "meta.json").get("bipartite", True)))
    return check_rows(str(folder / EVENTS), rows.source, rows.destination, rows.time, rows.edge)


def _rows(folder: Path, bipartite: bool) -> _Rows:
    user, item, time, label = _events(folder / EVENTS)
    offset = int(user.max(initial=-1)) + 1 if bipartite else 0
    edge = _arrays(folder / "edge_features.npz", "x")[0]
    if edge is None:
        edge = np.zeros((len(time), 0), np.float32)
    if len(edge) != len(time):
        raise DataError(f"{folder}: edge_features.npz has {len(edge)} rows, {EVENTS} {len(time)}; they must be equal")
    return _Rows(user, np.where(item < 0, -1, item + offset), time, edge, label)


def _meta(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise DataError(f"{file} cannot be read: {problem.strerror}; the folder of a data set is expected") from problem
    except ValueError as problem:
        raise DataError(f"{file} is not JSON: {problem}") from problem
    if not isinstance(content, dict):
        raise DataError(f"{file} must hold an object")
    return content


def _events(file: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int8]]:
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            header = lines.readline().strip()
            if header != HEADER:
                raise DataError(f"{file}: the first line must be {HEADER!r}, not {header!r}")
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data")  # the check tells of it
                rows = np.loadtxt(lines, delimiter=",", ndmin=2)
    except OSError as problem:
        raise DataError(f"{file} cannot be read: {problem}") from problem
    except ValueError as problem:
        raise DataError(f"{file}: {problem}") from problem
    if not len(rows):
        rows = np.zeros((0, 4))
    if rows.shape[1] != 4:
        raise DataError(f"{file}: four columns are needed, not {rows.shape[1]}")
    user, item, time, label = rows.T
    for name, column in (("user", user), ("item", item)):
        _refuse(file, name, column, (column == np.floor(column)) & (column < LARGEST), "a row number, from 0")
    _refuse(file, "label", label, np.isin(label, (-1, 0, 1)), "0, 1 or −1 where there is none")
    return user.astype(np.int64), item.astype(np.int64), np.ascontiguousarray(time), label.astype(np.int8)


def _refuse(file: Path, name: str, column: NDArray[np.float64], right: NDArray[np.bool_], wanted: str) -> None:
    """DataError with the first number of a column that is not what it must be."""
    if not right.all():
        row = int(np.argmin(right))
        raise DataError(f"{file}, row {row}: {name} is {column[row]:g}; it must be {wanted}")


def _arrays(file: Path, *names: str) -> list[NDArray[np.float32] | None]:
    """Arrays of an npz file by name; None for each where there is no such file."""
    if not file.is_file():
        return [None] * len(names)
    with np.load(file, allow_pickle=False) as content:
        missing = [name for name in names if name not in content]
        if missing:
            raise DataError(f"{file} has no array {missing[0]}, only {', '.join(content)}")
        return [np.asarray(content[name], np.float32) for name in names]


def _side_by_side(blocks: list[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """Block-diagonal: users have their own columns, items theirs."""
    present = [block for block in blocks if block is not None]
    if not present:
        return None
    result = np.zeros((sum(len(block) for block in present), sum(block.shape[1] for block in present)), np.float32)
    row = column = 0
    for block in present:
        result[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return result
