"""Reads rows out of files: CSV, JSON lines, Parquet and Arrow, compressed or not, with one style of errors.

A row is its place and its fields. What cannot be read is a `BadRow` with its place and the reason, and reading goes on;
what makes the whole file useless is a DataError. Cells of CSV are text: what they mean, whoever asks for them knows,
and `number` and `flag` help. Knows no topology and no topics.
"""

from stream_tgat.files.arrow import ArrowFile
from stream_tgat.files.cells import flag, number, number_column, numbers
from stream_tgat.files.columns import TextColumns, read_text_columns
from stream_tgat.files.opening import OpenFile, open_file
from stream_tgat.files.row_files import FileFormat, RowFile, form_of, open_rows
from stream_tgat.files.rows import BadRow, Row, place

__all__ = [
    "ArrowFile",
    "BadRow",
    "FileFormat",
    "OpenFile",
    "Row",
    "RowFile",
    "TextColumns",
    "flag",
    "form_of",
    "number",
    "number_column",
    "numbers",
    "open_file",
    "open_rows",
    "place",
    "read_text_columns",
]
