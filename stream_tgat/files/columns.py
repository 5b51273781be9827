"""The same file by columns: all cells of each as text, for those who compute with whole columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.files.opening import OpenFile
from stream_tgat.files.row_files import FileFormat, RowFile
from stream_tgat.files.rows import BadRow, place


@dataclass(frozen=True, eq=False)
class TextColumns:
    """A file of lines.

    cells: of each column, [n] texts, empty where there is nothing   lines: int64 [n], of each row
    """

    cells: dict[str, list[str]]
    lines: NDArray[np.int64]


def read_text_columns(file: OpenFile, form: FileFormat = "csv") -> TextColumns:
    """All rows of CSV or of JSON lines, which must all be readable: DataError names the first that is not."""
    rows = RowFile(file, form)
    lines: list[int] = []
    cells: dict[str, list[str]] = {name: [] for name in rows.columns or ()}
    for row in rows:
        if isinstance(row, BadRow):
            raise DataError(f"{place(file.name, rows.unit, row.number)}: {row.reason}")
        for name in row.fields:
            if name not in cells:
                cells[name] = [""] * len(lines)
        lines.append(row.number)
        for name, column in cells.items():
            column.append(_text(row.fields.get(name)))
    return TextColumns(cells, np.array(lines, np.int64))


def _text(value: Any) -> str:
    """What a cell would be that says the same."""
    if value is None or isinstance(value, str):
        return value or ""
    return str(int(value)) if isinstance(value, bool) else orjson.dumps(value).decode()
