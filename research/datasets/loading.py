"""Interactions from wherever they lie: a folder of a data set, a JODIE file, or a table with named columns.

A table is CSV, JSON lines, Parquet or Arrow. What a path holds its content tells, so every command takes all three.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_tgat.datasets.check import DataReport, check_rows
from stream_tgat.datasets.folder import check_folder, load_folder
from stream_tgat.datasets.jodie import is_jodie, load_jodie
from stream_tgat.datasets.table import Columns, load_table, read_rows
from stream_tgat.graph.interactions import Interactions


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set by time. name: see `name_of`   bipartite: destinations are numbered after the sources

    label: [n] int8, of each interaction; −1 unknown   node_features: [N, F] float32, None where there are none
    """

    name: str
    interactions: Interactions
    label: NDArray[np.int8]
    node_features: NDArray[np.float32] | None
    bipartite: bool


def name_of(path: Path, columns: Columns | None = None) -> str:
    """What a data set is called: by its folder or file, and by the columns that were asked of a table."""
    if path.is_dir() or is_jodie(path) or columns is None:
        return path.resolve().name
    return columns.name_of(path)


def load(path: Path, columns: Columns | None = None) -> DataSet:
    """Read a data set that has nothing wrong in it; DataError names the first thing that is, and the row.

    columns: of a table; the others have theirs
    """
    name = name_of(path, columns)
    if path.is_dir():
        folder = load_folder(path)
        return DataSet(name, folder.interactions, folder.label, folder.node_features, folder.bipartite)
    if is_jodie(path):
        data = load_jodie(path)
        return DataSet(name, data.interactions(), data.changed.astype(np.int8), None, bipartite=True)
    table = load_table(path, columns)
    return DataSet(name, table.interactions, table.label, None, table.bipartite)


def check(path: Path, columns: Columns | None = None) -> DataReport:
    """What is remarkable in a data set, and what is wrong with it, in the order in which it lies there."""
    if path.is_dir():
        return check_folder(path)
    if is_jodie(path):
        rows = load_jodie(path).interactions()
        return check_rows(path.name, rows.source, rows.destination, rows.time, rows.edge)
    return read_rows(path, columns or Columns()).check()
