"""Reads interactions from CSV, JSON lines, Parquet or Arrow: one row each, any names of columns, ids of any kind.

The format of TGB and of most public graphs: source, destination, time, then features. Only what is asked for is read.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.datasets.check import DataReport, check_rows
from stream_tgat.errors import DataError, WireError
from stream_tgat.files import (
    ArrowFile,
    BadRow,
    form_of,
    number_column,
    open_file,
    open_rows,
    place,
    read_text_columns,
)
from stream_tgat.graph.interactions import Interactions
from stream_tgat.topology import Topology
from stream_tgat.wire import feature_cells, parse_time, read_cells

NO_LABEL = -1


@dataclass(frozen=True)
class Columns:
    """Which columns hold what.

    time: a number in seconds, or a time stamp (UTC, unless it says otherwise)   label: 0 or 1, empty where unknown
    features: numbers; None: every other column
    separate_ids: sources and destinations are of two kinds, so that source 3 and destination 3 are different nodes
    """

    source: str = "src"
    destination: str = "dst"
    time: str = "timestamp"
    label: str | None = None
    features: tuple[str, ...] | None = None
    separate_ids: bool = False

    def name_of(self, file: Path) -> str:
        """What the data is called: by its file, and by what is read of it where that is not the usual."""
        usual = Columns()
        read = [self.source, self.destination, self.time, *([] if self.label is None else [self.label])]
        told = [
            *([",".join(read)] if read != [usual.source, usual.destination, usual.time] else []),
            *([] if self.features is None else ["features " + (",".join(self.features) or "none")]),
            *(["bipartite"] if self.separate_ids else []),
        ]
        return f"{file.resolve().name} ({'; '.join(told)})" if told else file.resolve().name


@dataclass(frozen=True, eq=False)
class TableRows:
    """A file as it is, in its own order, with what is missing or wrong in it.

    source, destination: [n] int64, places in their names; −1 where missing
    time: [n] float64, seconds, NaN where missing   edge: [n, E] float32, NaN where missing
    label: [n] int8, NO_LABEL where missing   lines: [n] int64, of a CSV file; None where rows are counted, from 1
    """

    name: str
    columns: Columns
    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    source_names: NDArray[Any]
    destination_names: NDArray[Any]
    time: NDArray[np.float64]
    edge: NDArray[np.float32]
    feature_names: tuple[str, ...]
    label: NDArray[np.int8]
    lines: NDArray[np.int64] | None

    def check(self) -> DataReport:
        """What is remarkable in the data, and what is wrong with it."""
        shift = len(self.source_names) if self.columns.separate_ids else 0
        destination = np.where(self.destination < 0, -1, self.destination + shift)
        return check_rows(self.name, self.source, destination, self.time, self.edge, self.feature_names, self.lines)

    def place(self, row: int) -> str:
        """Where a row is, as messages begin."""
        return place(self.name, *(("row", row + 1) if self.lines is None else ("line", int(self.lines[row]))))


@dataclass(frozen=True, eq=False)
class Table:
    """Interactions of a file, by time; rows of one time keep the order of the file.

    Nodes are numbered by first appearance in time, with separate ids all sources before all destinations.
    names: [N], a node's id in the file   label: [n] int8, NO_LABEL where there is none
    """

    name: str
    interactions: Interactions
    label: NDArray[np.int8]
    names: NDArray[Any]
    bipartite: bool


def load_table(file: Path, columns: Columns | None = None) -> Table:
    """Read a file that has nothing wrong in it; DataError names the first thing that is, and the row."""
    rows = read_rows(file, columns or Columns())
    rows.check().raise_errors()
    return in_time_order(rows)


def read_rows(file: Path, columns: Columns) -> TableRows:
    """Read a file as it is; what it is, its content says, and else its name. DataError where it cannot be read."""
    wanted = [columns.source, columns.destination, columns.time, *([columns.label] if columns.label else [])]
    table = _read(file, wanted, None if columns.features is None else [*wanted, *columns.features])
    features = columns.features if columns.features is not None else table.others(wanted)
    source, destination = (_ids(table.columns[name]) for name in (columns.source, columns.destination))
    if not columns.separate_ids:
        (source, destination), names = _encode(source, destination)
        source_names = destination_names = names
    else:
        (source,), source_names = _encode(source)
        (destination,), destination_names = _encode(destination)
    edge = np.zeros((table.rows, len(features)), np.float32)
    for at, name in enumerate(features):
        edge[:, at] = table.numbers(name)
    return TableRows(
        file.name, columns, source, destination, source_names, destination_names,
        table.times(columns.time), edge, features, _labels(table, columns.label), table.lines,
    )  # fmt: skip


def read_fields(file: Path, topology: Topology) -> list[dict[str, Any]]:
    """The fields that a topology's features are made of, as a record on the wire would have them: of each row."""
    names = [feature.name for feature in topology.features]
    if not names:
        return []
    readers = feature_cells(topology)
    fields: list[dict[str, Any]] = []
    with open_rows(file) as rows:
        if rows.columns is not None:
            _require(file, rows.columns, names)
        for row in rows:
            if isinstance(row, BadRow):
                raise DataError(f"{place(file.name, rows.unit, row.number)}: {row.reason}")
            found = {name: row.fields[name] for name in names if name in row.fields}
            fields.append(read_cells(found, readers) if rows.is_text else found)
    return fields


def in_time_order(rows: TableRows) -> Table:
    """Sort rows by time and number their nodes; the rows must have passed their check."""
    order = np.argsort(rows.time, kind="stable")
    source, destination = rows.source[order], rows.destination[order]
    if rows.columns.separate_ids:
        source, first = _by_appearance(source)
        destination, second = _by_appearance(destination)
        destination = destination + len(first)
        names = np.concatenate([rows.source_names[first].astype(object), rows.destination_names[second].astype(object)])
    else:
        ends, appeared = _by_appearance(np.stack([source, destination], 1).ravel())
        source, destination = ends[::2], ends[1::2]
        names = rows.source_names[appeared]
    interactions = Interactions.in_time_order(source, destination, rows.time[order], rows.edge[order])
    return Table(rows.name, interactions, rows.label[order], names, rows.columns.separate_ids)


def _by_appearance(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes renumbered by when they first come, and which code each number was."""
    distinct, first, place = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[place], distinct[order]


@dataclass(frozen=True, eq=False)
class _Table:
    """A file by columns: pyarrow's, of text where the file is text. lines: as of `TableRows`"""

    name: str
    columns: dict[str, Any]
    rows: int
    lines: NDArray[np.int64] | None

    def others(self, used: list[str]) -> tuple[str, ...]:
        """The columns that are left over."""
        return tuple(name for name in self.columns if name not in used)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where it is empty."""
        import pyarrow as pa

        column = self.columns[name]
        if self.lines is not None:
            found, wrong = number_column(_texts(column))
            if wrong:
                raise self._error(wrong[0], name, "a number", _texts(column)[wrong[0]])
            return found
        try:
            return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise DataError(f"{self.name}: column {name!r} is not one of numbers ({problem})") from problem

    def times(self, name: str) -> NDArray[np.float64]:
        """A column as seconds since 1970, NaN where it is empty."""
        import pyarrow as pa

        column = self.columns[name]
        if pa.types.is_temporal(column.type):
            micros = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
            return np.asarray(micros.cast(pa.float64(), safe=False).to_numpy(), np.float64) / 1e6
        if not pa.types.is_string(column.type):
            return self.numbers(name)
        texts = _texts(column)
        found, others = number_column(texts)
        for at in others:
            try:
                found[at] = parse_time(texts[at])
            except WireError as problem:
                raise DataError(f"{self.place(at)}: column {name!r} {problem}") from None
        return found

    def place(self, row: int) -> str:
        """Where a row is, as messages begin."""
        return place(self.name, *(("row", row + 1) if self.lines is None else ("line", int(self.lines[row]))))

    def _error(self, row: int, column: str, wanted: str, found: str) -> DataError:
        return DataError(f"{self.place(row)}: column {column!r} must be {wanted}, not {found[:40]!r}")


def _read(file: Path, wanted: list[str], chosen: list[str] | None) -> _Table:
    """The chosen columns of a file, by default all; those wanted must be there."""
    if find_spec("pyarrow") is None:
        raise DataError("Reading tables needs pyarrow, which is not installed: pip install 'stream-tgat[tables]'")
    import pyarrow as pa

    with open_file(file) as opened:
        form = form_of(opened)
        if form == "table":
            arrow = ArrowFile(opened)
            _require(file, arrow.columns, chosen or wanted)
            table = arrow.table(chosen)
            return _Table(file.name, dict(zip(table.column_names, table.columns, strict=True)), table.num_rows, None)
        text = read_text_columns(opened, form)
    if form == "csv" or len(text.lines):  # JSON lines without rows have no names either
        _require(file, list(text.cells), chosen or wanted)
    columns = {
        name: pa.chunked_array([pa.array([cell or None for cell in text.cells.get(name, ())], pa.string())])
        for name in dict.fromkeys(chosen or text.cells or wanted)
    }
    return _Table(file.name, columns, len(text.lines), text.lines)


def _texts(column: Any) -> list[str]:
    return [cell or "" for cell in column.to_pylist()]


def _require(file: Path, present: list[str], wanted: list[str]) -> None:
    for name in wanted:
        if name not in present:
            raise DataError(f"{file} has no column {name!r}, only {', '.join(present)}; say which columns hold what")


def _ids(column: Any) -> Any:
    """Ids as integers of 64 bits where all of them are such, and else as the text that they are.

    Text is not read as numbers on the way: doubles would confuse large ids, and 007 is not 7.
    """
    import pyarrow as pa
    from pyarrow import compute

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = column.cast(pa.string())
        if compute.all(compute.match_substring_regex(column, r"^-?\d+\.0$")).as_py():
            column = compute.replace_substring(column, ".0", "", max_replacements=1)  # how pandas writes them at times
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.string())
    is_text = pa.types.is_string(column.type)
    return column if is_text and not compute.all(compute.equal(whole.cast(pa.string()), column)).as_py() else whole


def _encode(*columns: Any) -> tuple[list[NDArray[np.int64]], NDArray[Any]]:
    """Columns of ids as places among their distinct values, −1 for a missing one."""
    import pyarrow as pa

    if len({column.type for column in columns}) > 1:
        columns = tuple(column.cast(pa.string()) for column in columns)
    joined = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    encoded = joined.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(codes, lengths), encoded.dictionary.to_numpy(zero_copy_only=False)


def _labels(table: _Table, name: str | None) -> NDArray[np.int8]:
    if name is None:
        return np.full(table.rows, NO_LABEL, np.int8)
    values = table.numbers(name)
    wrong = np.flatnonzero(~(np.isnan(values) | np.isin(values, [NO_LABEL, 0, 1])))
    if len(wrong):
        raise DataError(
            f"{table.place(int(wrong[0]))}: column {name!r} is {values[wrong[0]]:g}; a label is 0, 1 or empty"
        )
    return np.nan_to_num(values, nan=NO_LABEL).astype(np.int8)
