"""The same file by columns: all cells of each as text, for those who compute with whole columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.files.opening import OpenFile
from stream_tgat.files.rows import BadRow, place
from stream_tgat.files.text import CsvFile


@dataclass(frozen=True, eq=False)
class TextColumns:
    """A CSV file. cells: of each column, [n] texts, empty where there is nothing   lines: int64 [n], of each row"""

    cells: dict[str, list[str]]
    lines: NDArray[np.int64]


def read_text_columns(file: OpenFile) -> TextColumns:
    """All rows of a CSV file, which must all be readable: DataError names the first that is not."""
    table = CsvFile(file)
    lines, rows = [], []
    for row in table:
        if isinstance(row, BadRow):
            raise DataError(f"{place(file.name, 'line', row.number)}: {row.reason}")
        lines.append(row[0])
        rows.append(row[1])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.columns)
    cells = {name: list(column) for name, column in zip(table.columns, columns, strict=True)}
    return TextColumns(cells, np.array(lines, np.int64))
