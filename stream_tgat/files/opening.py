"""Opens a file as bytes, unpacked if need be: its first bytes say how it is packed, not its name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from stream_tgat.errors import DataError

_UNPACKED: Final[dict[bytes, Callable[[BinaryIO], io.BufferedIOBase]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_OTHERS: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
#: UTF-32 first: its mark begins with that of UTF-16.
_MARKS: Final = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_MAGIC: Final = 16
_BUFFER_BYTES: Final = 1 << 16
#: What the unpacking libraries raise where the bytes are not what they should be.
_DAMAGED: Final = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@dataclass(frozen=True)
class OpenFile:
    """A file that is being read.

    content: its bytes, unpacked   name: for messages   size: in bytes, as it lies on the disk; 0 where none is known
    """

    content: io.BufferedReader[_Unpacked]
    name: str
    size: int
    _packed: BinaryIO

    @property
    def position(self) -> int:
        """How many of the `size` bytes have been read."""
        return self._packed.tell() if self.size else 0

    def begin(self) -> bytes:
        """The first bytes, which stay to be read."""
        return self.content.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]

    def refuse_other_encodings(self) -> None:
        """DataError if the first bytes are the mark of an encoding other than UTF-8; the mark of UTF-8 is skipped."""
        begin = self.begin()
        for mark, encoding in _MARKS.items():
            if begin.startswith(mark):
                raise _not_utf8(self.name, f"{encoding} (its first bytes are {mark.hex(' ').upper()})", encoding)
        if b"\x00" in begin and begin.replace(b"\x00", b"").isascii():
            raise _not_utf8(
                self.name, f"not text in UTF-8 (its first bytes are {begin[:4].hex(' ').upper()})", "UTF-16"
            )
        if begin.startswith(_BOM):
            self.content.read(len(_BOM))


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """The bytes of a file, those of gzip, bzip2 and xz unpacked. DataError if it cannot be read, or is damaged."""
    with ExitStack() as opened:
        with _errors_as_ours(str(path)):
            file = opened.enter_context(path.open("rb"))
            size = path.stat().st_size if path.is_file() else 0
            begin = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
        for magic, packing in _OTHERS.items():
            if begin.startswith(magic):
                raise DataError(f"{path.name}: packed with {packing}; unpack it first, or use gzip, bzip2 or xz")
        unpack = next((each for magic, each in _UNPACKED.items() if begin.startswith(magic)), None)
        content = io.BufferedReader(_Unpacked(path.name, file if unpack is None else unpack(file)), _BUFFER_BYTES)
        yield OpenFile(content, path.name, size, file)


class _Unpacked(io.RawIOBase):
    """Bytes whose errors name the file: errors of reading only, not those of whoever reads."""

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        self._name, self._file = name, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: Any) -> int:
        with _errors_as_ours(self._name):
            return self._file.readinto1(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _errors_as_ours(self._name):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextmanager
def _errors_as_ours(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as problem:
        raise DataError(f"{name}: damaged: it cannot be unpacked ({problem})") from problem
    except OSError as problem:
        raise DataError(f"{name}: cannot be read: {problem.strerror or problem}") from problem


def _not_utf8(name: str, found: str, encoding: str) -> DataError:
    return DataError(f"{name}: {found}; UTF-8 is expected, as from: iconv -f {encoding} -t UTF-8 {name}")
