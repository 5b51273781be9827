"""Data sets that lie as a folder: `events.csv.gz`, `meta.json`, and perhaps `edge_features.npz`, `node_features.npz`.

events.csv.gz has the columns user,item,timestamp,label, by time; ids count from 0, label is −1 where there is none.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.datasets.check import DataReport, check_rows, refuse_errors
from stream_tgat.errors import DataError
from stream_tgat.files import number_column, open_file, place, read_text_columns
from stream_tgat.graph.interactions import Interactions

EVENTS = "events.csv.gz"
LARGEST = 2**31
"""Ids are places in arrays, so none is as large as this."""

HEADER = "user,item,timestamp,label"


@dataclass(frozen=True, eq=False)
class DatasetFolder:
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
class _FileRows:
    """Rows in the order of the file: source, destination, time, edge as in `Interactions`, label as in `DatasetFolder`.

    lines: [n] int64, of the file of events, where each stands
    """

    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    time: NDArray[np.float64]
    edge: NDArray[np.float32]
    label: NDArray[np.int8]
    lines: NDArray[np.int64]


def load_folder(folder: Path) -> DatasetFolder:
    """Read a data set; DataError says which file is missing, or what is wrong with it in which row."""
    meta = _meta(folder / "meta.json")
    bipartite = bool(meta.get("bipartite", True))
    rows = _rows(folder, bipartite)
    refuse_errors(str(folder / EVENTS), rows.source, rows.destination, rows.time, rows.edge, rows.lines)
    order = np.argsort(rows.time, kind="stable")
    interactions = Interactions.in_time_order(rows.source, rows.destination, rows.time, rows.edge)
    node_features = _side_by_side(_arrays(folder / "node_features.npz", "user", "item"))
    if node_features is not None and not np.isfinite(node_features).all():
        raise DataError(f"{folder / 'node_features.npz'} holds numbers that are not finite; fill them in")
    return DatasetFolder(folder.name, interactions, rows.label[order], node_features, bipartite, meta)


def check_folder(folder: Path) -> DataReport:
    """What is remarkable in the interactions of a data set, and what is wrong with them."""
    rows = _rows(folder, bool(_meta(folder / "meta.json").get("bipartite", True)))
    name = str(folder / EVENTS)
    return check_rows(name, rows.source, rows.destination, rows.time, rows.edge, lines=rows.lines)


def _rows(folder: Path, bipartite: bool) -> _FileRows:
    events = _events(folder / EVENTS)
    offset = int(events.user.max(initial=-1)) + 1 if bipartite else 0
    edge = _arrays(folder / "edge_features.npz", "x")[0]
    if edge is None:
        edge = np.zeros((len(events.time), 0), np.float32)
    count = len(events.time)
    if len(edge) != count:
        raise DataError(f"{folder}: edge_features.npz has {len(edge)} rows, {EVENTS} {count}; they must be equal")
    item = np.where(events.item < 0, -1, events.item + offset)
    return _FileRows(events.user, item, events.time, edge, events.label, events.lines)


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


@dataclass(frozen=True, eq=False)
class _Events:
    """The file of events. item: as in it   lines: [n], where each stands; the others as in `_FileRows`"""

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    time: NDArray[np.float64]
    label: NDArray[np.int8]
    lines: NDArray[np.int64]


def _events(file: Path) -> _Events:
    with open_file(file) as opened:
        text = read_text_columns(opened)
    if list(text.cells) != HEADER.split(","):
        raise DataError(f"{file}, line 1: it must be {HEADER!r}, not {','.join(text.cells)!r}")
    columns = {}
    for name, cells in text.cells.items():
        columns[name], wrong = number_column(cells)
        if wrong:
            where = place(str(file), "line", int(text.lines[wrong[0]]))
            raise DataError(f"{where}: column {name!r} must be a number, not {cells[wrong[0]][:40]!r}")
    for name in ("user", "item"):
        column = columns[name]
        is_id = (column == np.floor(column)) & (column < LARGEST)
        _refuse(file, text.lines, name, column, is_id, "a row number, from 0")
    label = columns["label"]
    _refuse(file, text.lines, "label", label, np.isin(label, (-1, 0, 1)), "0, 1 or −1 where there is none")
    user, item = columns["user"].astype(np.int64), columns["item"].astype(np.int64)
    return _Events(user, item, columns["timestamp"], label.astype(np.int8), text.lines)


def _refuse(
    file: Path,
    lines: NDArray[np.int64],
    name: str,
    column: NDArray[np.float64],
    right: NDArray[np.bool_],
    wanted: str,
) -> None:
    """DataError with the first number of a column that is not what it must be."""
    if not right.all():
        row = int(np.argmin(right))
        found = "empty" if np.isnan(column[row]) else f"{column[row]:g}"
        raise DataError(f"{place(str(file), 'line', int(lines[row]))}: column {name!r} must be {wanted}, not {found}")


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
