"""Data sets that lie as a folder: `events.csv.gz`, `meta.json`, and perhaps `edge_features.npz`, `node_features.npz`.

events.csv.gz has the columns user,item,timestamp,label, by time; label is −1 where there is none.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions

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


def load_folder(folder: Path) -> Folder:
    """Read a data set; DataError says which file is missing or what in it does not fit."""
    meta = _meta(folder / "meta.json")
    user, item, time, label = _events(folder / "events.csv.gz")
    bipartite = bool(meta.get("bipartite", True))
    offset = int(user.max()) + 1 if bipartite and len(user) else 0
    edge = _arrays(folder / "edge_features.npz", "x")[0]
    if edge is not None and len(edge) != len(time):
        raise DataError(
            f"{folder}: edge_features.npz has {len(edge)} rows, events.csv.gz {len(time)}; they must be equal"
        )
    order = np.argsort(time, kind="stable")
    interactions = Interactions.in_time_order(user, item + offset, time, edge)
    node_features = _side_by_side(_arrays(folder / "node_features.npz", "user", "item"))
    return Folder(folder.name, interactions, label[order], node_features, bipartite, meta)


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
            rows = np.loadtxt(lines, delimiter=",", ndmin=2)
    except OSError as problem:
        raise DataError(f"{file} cannot be read: {problem}") from problem
    except ValueError as problem:
        raise DataError(f"{file}: {problem}") from problem
    if rows.shape[1] != 4:
        raise DataError(f"{file}: four columns are needed, not {rows.shape[1]}")
    return rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), rows[:, 2], rows[:, 3].astype(np.int8)


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
