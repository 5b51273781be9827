"""One way into all files of rows: their content says what they are, and where it cannot, their name does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import orjson

from stream_tgat.errors import DataError
from stream_tgat.files.arrow import ARROW, PARQUET, ArrowFile
from stream_tgat.files.opening import OpenFile, open_file
from stream_tgat.files.rows import BadRow, Row
from stream_tgat.files.text import CsvFile

FileFormat = Literal["jsonl", "csv", "table"]
"""JSON lines, text with separators, or Parquet and Arrow."""

_PACKED: Final = frozenset({".gz", ".bz2", ".xz"})
_FORMS: Final[dict[str, FileFormat]] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip


class RowFile:
    """A file that is being read as rows.

    form: what it is   columns: names of all fields; None where each row names its own   unit: what `number` of a row
    counts, "line" or "row"   is_text: fields are cells of text, whose meaning is still to be told
    """

    def __init__(self, file: OpenFile, form: FileFormat) -> None:
        self.name, self.form = file.name, form
        self._file = file
        self._table = CsvFile(file) if form == "csv" else ArrowFile(file) if form == "table" else None
        self.columns: list[str] | None = None if self._table is None else self._table.columns
        self.unit = "row" if form == "table" else "line"
        self.is_text = form == "csv"

    def __iter__(self) -> Iterator[Row | BadRow]:
        """The rows in the order of the file, those that cannot be read among them."""
        yield from self._rows()

    @property
    def done(self) -> float:
        """The share that has been read, from 0 to 1."""
        if isinstance(self._table, ArrowFile):
            return self._table.done
        return self._file.position / max(self._file.size, 1)

    def _rows(self) -> Iterator[Row | BadRow]:
        if self._table is None:
            return _json_lines(self._file)
        return iter(self._table) if isinstance(self._table, ArrowFile) else self._csv_rows(self._table)

    def _csv_rows(self, table: CsvFile) -> Iterator[Row | BadRow]:
        for row in table:
            if isinstance(row, BadRow):
                yield row
            else:
                number, cells = row
                filled = zip(table.columns, cells, strict=True)
                yield Row(number, {name: cell for name, cell in filled if cell})


@contextmanager
def open_rows(path: Path, form: FileFormat | None = None) -> Iterator[RowFile]:
    """A file's rows. form: None to tell it by content and name; DataError where they do not tell."""
    with open_file(path) as file:
        yield RowFile(file, form or form_of(file))


def form_of(file: OpenFile) -> FileFormat:
    """What an open file is: by its first bytes, and else by its name, less the ending of what has packed it."""
    begin = file.begin()
    if begin.startswith((PARQUET, ARROW)):
        return "table"
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "jsonl"
    endings = [ending for ending in Path(file.name.lower()).suffixes if ending not in _PACKED]
    form = _FORMS.get(endings[-1]) if endings else None
    if form is None:
        raise DataError(
            f"{file.name}: neither its content nor its name says what it is; name it .jsonl, .csv, .tsv or .parquet, "
            "with .gz where it is packed, or say it with --format"
        )
    return form


def _json_lines(file: OpenFile) -> Iterator[Row | BadRow]:
    file.refuse_other_encodings()
    for number, line in enumerate(file.content, start=1):
        value = line.strip()
        if not value:
            continue
        try:
            content = orjson.loads(value)
        except orjson.JSONDecodeError as problem:
            yield BadRow(number, _json_reason(value, problem))
            continue
        if isinstance(content, dict):
            yield Row(number, content, value)
        else:
            yield BadRow(number, f'an object such as {{"name": 1}} is expected, not {value[:40].decode()!r}')


def _json_reason(value: bytes, problem: orjson.JSONDecodeError) -> str:
    try:
        value.decode()
    except UnicodeDecodeError as where:
        byte = value[where.start]
        return f"not UTF-8: it holds the byte {byte:02X}, as Latin-1 has it; save as UTF-8"
    # The line within the line would only confuse.
    told = str(problem).replace("line 1 column", "character")
    if b"NaN" in value or b"Infinity" in value:
        return f"not JSON, which has no NaN or Infinity: {told}"
    return f"not JSON: {told}"
