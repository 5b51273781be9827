"""Parquet and Arrow as rows. Times become text in ISO 8601, so that they are read by the same rule as everywhere."""

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


class ArrowFile:
    """A table that is being read. columns: their names   rows: how many there are"""

    def __init__(self, file: OpenFile) -> None:
        if find_spec("pyarrow") is None:
            raise DataError(
                f"{file.name}: Parquet and Arrow are read with pyarrow, which is not installed: pip install "
                "'stream-tgat[tables]'"
            )
        from pyarrow import ipc, parquet

        self.name = file.name
        with self._told():
            self._is_parquet = file.begin().startswith(PARQUET)
            self._file = parquet.ParquetFile(file.content) if self._is_parquet else ipc.open_file(file.content)
            schema = self._file.schema_arrow if self._is_parquet else self._file.schema
            self.columns: list[str] = list(schema.names)
            self.rows: int = self._file.metadata.num_rows if self._is_parquet else self._file.read_all().num_rows
        refuse_doubled(self.name, self.columns)

    def __iter__(self) -> Iterator[Row]:
        """The rows, one by one; a null is a field that is not there, and NaN stays what it is."""
        number = 0
        with self._told():
            for batch in self._batches():
                names, columns = batch.schema.names, [_values(column) for column in batch.columns]
                for values in zip(*columns, strict=True):
                    number += 1
                    filled = zip(names, values, strict=True)
                    yield Row(number, {name: value for name, value in filled if value is not None})

    def table(self, columns: Sequence[str] | None = None) -> Any:
        """The whole of some columns, by default of all, as pyarrow's table."""
        with self._told():
            if self._is_parquet:
                return self._file.read(None if columns is None else list(columns))
            whole = self._file.read_all()
            return whole if columns is None else whole.select(list(columns))

    def _batches(self) -> Iterator[Any]:
        if self._is_parquet:
            yield from self._file.iter_batches(_ROWS)
        else:
            yield from self._file.read_all().to_batches(_ROWS)

    @contextmanager
    def _told(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError) as problem:
            raise DataError(f"{self.name}: not a readable table: {problem}") from problem


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
