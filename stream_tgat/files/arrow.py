"""Parquet and Arrow (Feather) as rows. Times become text in ISO 8601, so that they are read as everywhere.

A table is read in parts: of Parquet some thousand rows at a time, of Arrow one of the file's own record batches.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from stream_tgat.errors import DataError
from stream_tgat.files.opening import OpenFile
from stream_tgat.files.rows import Row
from stream_tgat.files.text import refuse_doubled

PARQUET: Final = b"PAR1"
ARROW: Final = b"ARROW1"
_ROWS: Final = 4096
_BATCH_BYTES: Final = 2 << 20
#: Of each column: without a bound the whole of it in a row group is read at once, and a file may have but one.
_BUFFER_BYTES: Final = 1 << 20


class ArrowFile:
    """A table that is being read. columns: their names   done: the share that has been read, from 0 to 1"""

    def __init__(self, file: OpenFile) -> None:
        if find_spec("pyarrow") is None:
            raise DataError(
                f"{file.name}: Parquet and Arrow are read with pyarrow, which is not installed: pip install "
                "'stream-tgat[tables]'"
            )
        from pyarrow import ipc, parquet

        self.name = file.name
        with self._errors_as_ours():
            self._is_parquet = file.begin().startswith(PARQUET)
            self._file = (
                parquet.ParquetFile(file.content, buffer_size=_BUFFER_BYTES, pre_buffer=False)
                if self._is_parquet
                else ipc.open_file(file.content)
            )
            schema = self._file.schema_arrow if self._is_parquet else self._file.schema
            self.columns: list[str] = list(schema.names)
        refuse_doubled(self.name, self.columns)
        self.done = 0.0

    def __iter__(self) -> Iterator[Row]:
        """The rows, one by one; a null is a field that is not there, and NaN stays what it is."""
        number = 0
        with self._errors_as_ours():
            for batch, done in self._batches():
                self.done = done
                names, columns = batch.schema.names, [_values(column) for column in batch.columns]
                for values in zip(*columns, strict=True):
                    number += 1
                    filled = zip(names, values, strict=True)
                    yield Row(number, {name: value for name, value in filled if value is not None})

    def table(self, columns: Sequence[str] | None = None) -> Any:
        """The whole of some columns, by default of all, as pyarrow's table."""
        with self._errors_as_ours():
            if self._is_parquet:
                return self._file.read(None if columns is None else list(columns))
            whole = self._file.read_all()
            return whole if columns is None else whole.select(list(columns))

    def _batches(self) -> Iterator[tuple[Any, float]]:
        """Some rows at a time, and which share of all has been read with them."""
        if self._is_parquet:
            about = self._file.metadata
            read, all_rows = 0, max(about.num_rows, 1)
            size = sum(about.row_group(index).total_byte_size for index in range(about.num_row_groups))
            for batch in self._file.iter_batches(_rows_at_once(size, all_rows)):
                read += batch.num_rows
                yield batch, read / all_rows
            return
        count = self._file.num_record_batches
        for index in range(count):
            batch = self._file.get_batch(index)
            at_once = _rows_at_once(batch.nbytes, batch.num_rows)
            for first in range(0, batch.num_rows, at_once):
                some = batch.slice(first, at_once)
                yield some, (index + (first + some.num_rows) / batch.num_rows) / count

    @contextmanager
    def _errors_as_ours(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as problem:
            raise DataError(f"{self.name}: not a readable table: {problem}") from problem


def _rows_at_once(size: int, rows: int) -> int:
    """How many of so many rows are taken together. size: of all, in bytes"""
    return max(1, min(_ROWS, _BATCH_BYTES * rows // max(size, 1)))


def _values(column: Any) -> list[Any]:
    """A column as the values that JSON would have."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        # In UTC where the column names a zone: to Python's times, which end at microseconds.
        column = column.cast(pa.timestamp("us", "UTC" if kind.tz else None), safe=False)
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return [None if value is None else value.isoformat() for value in values]
    return values
