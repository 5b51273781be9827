"""CSV as its rows: a first line of names, then a row a line, or over several where a cell holds line breaks.

Nothing is guessed of what cells mean, and a line that is not UTF-8 spoils no other.
"""

import csv
import io
from collections.abc import Iterator
from typing import Final

from stream_tgat.errors import DataError
from stream_tgat.files.opening import OpenFile
from stream_tgat.files.rows import BadRow

LONGEST_CELL: Final = 2**20
"""Characters of a cell; the module's own limit is 131,072, which a topology may allow records to exceed."""

Cells = tuple[int, list[str]]
"""The number of a line, and its cells: as many as there are columns."""


class CsvFile:
    """A CSV file that is being read. columns: the names in its first line"""

    def __init__(self, file: OpenFile, delimiter: str | None = None) -> None:
        """delimiter: None for that of the first line, a tab, else a comma, else a semicolon"""
        # The module has one limit for everybody.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
        file.refuse_other_encodings()
        self.name = file.name
        # A byte that is not UTF-8 becomes a surrogate, which tells its cell; lines end as an editor ends them.
        self._text = io.TextIOWrapper(file.content, "utf-8", errors="surrogateescape", newline="")
        first = self._text.readline()
        if delimiter is None:
            delimiter = next((each for each in "\t,;" if each in first), ",")
        self._lines = _Lines(first, self._text)
        self._cells = csv.reader(self._lines, delimiter=delimiter, strict=True)
        self.columns = self._names()

    def __iter__(self) -> Iterator[Cells | BadRow]:
        """The rows, one by one, without empty lines."""
        width = len(self.columns)
        while True:
            begin = self._lines.read + 1
            try:
                cells = next(self._cells)
            except StopIteration:
                return
            except csv.Error as problem:
                yield BadRow(begin, _csv_reason(problem, begin, self._lines.read))
                continue
            if not cells:
                continue
            if not self._lines.is_utf8:
                yield BadRow(begin, self._not_utf8(cells))
                self._lines.is_utf8 = True
            elif len(cells) != width:
                yield BadRow(begin, f"{_count(cells)}, but {width} columns are named in the first line")
            else:
                yield begin, cells

    def _names(self) -> list[str]:
        try:
            names = next(self._cells, [])
        except csv.Error as problem:
            raise DataError(f"{self.name}, line 1: {_csv_reason(problem, 1, self._lines.read)}") from None
        if not self._lines.is_utf8:
            raise DataError(f"{self.name}, line 1: {self._not_utf8(names)}")
        refuse_doubled(f"{self.name}, line 1", names)
        return names

    def _not_utf8(self, cells: list[str]) -> str:
        names = getattr(self, "columns", [])
        for at, cell in enumerate(cells):
            if not _is_utf8(cell):
                column = repr(names[at]) if at < len(names) else str(at + 1)
                byte = next(ord(each) - 0xDC00 for each in cell if "\udc80" <= each <= "\udcff")
                return f"column {column} is not UTF-8: it holds the byte {byte:02X}, as Latin-1 has it; save as UTF-8"
        return "not UTF-8; save as UTF-8"


class _Lines:
    """Lines of a text. read: how many there were   is_utf8: whether all were since it was last set"""

    def __init__(self, first: str, rest: io.TextIOWrapper) -> None:
        self.read = 0
        self.is_utf8 = True
        self._first: str | None = first
        self._rest = rest

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line, self._first = (self._rest.readline() if self._first is None else self._first), None
        if not line:
            raise StopIteration
        self.read += 1
        if not line.isascii() and not _is_utf8(line):
            self.is_utf8 = False
        return line


def refuse_doubled(where: str, columns: list[str]) -> None:
    """DataError if two columns of a file have one name: which of them is meant, nobody could say."""
    twice = next((each for each in columns if columns.count(each) > 1), None)
    if twice is not None:
        raise DataError(f"{where}: column {twice!r} is there {columns.count(twice)} times; rename or remove the others")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(cells: list[str]) -> str:
    return "one cell" if len(cells) == 1 else f"{len(cells)} cells"


def _csv_reason(problem: csv.Error, begin: int, end: int) -> str:
    if "field limit" in str(problem):
        return (
            f"a cell of more than {LONGEST_CELL:,} characters, up to line {end}; at most so many are read: is a "
            "quotation mark not closed?"
        )
    if "unexpected end" in str(problem):
        return f"a quotation mark is not closed, so that all up to line {end} is one cell; close it, or double it"
    return f"not CSV: {problem}" + (f" (up to line {end})" if end > begin else "")
