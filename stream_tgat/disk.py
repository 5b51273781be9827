"""Room on a disk, and files that are replaced whole: a disk that fills up costs what is written then, and no more."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stream_tgat.errors import FullDiskError

RESERVE_BYTES = 64 * 2**20
"""Room that is left on the disk: tables that are only in memory are still to be written, and compaction needs some."""

_FULL: Final = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


def check_room(folder: Path) -> None:
    """Raise FullDiskError if the disk of a folder has no more than the reserve left."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free <= RESERVE_BYTES:
        raise _full(folder, f"{_megabytes(free)} are left, and {_megabytes(RESERVE_BYTES)} are kept in reserve")


@contextmanager
def told_if_full(folder: Path) -> Iterator[None]:
    """Raise FullDiskError where Python, RocksDB or safetensors say, each with an error of its own, that it is full."""
    try:
        yield
    except Exception as problem:
        # The last two raise errors of their own, and only what they say tells which.
        if isinstance(problem, FullDiskError) or not any(said in str(problem) for said in _FULL):
            raise
        raise _full(folder, str(problem).splitlines()[0].strip()) from problem


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path to write to, which then takes the place of `file`, also if the power fails.

    If writing fails, the file is as it was. The folder is made if it is not there.
    """
    partial = file.with_name(f".{file.name}.partial")
    with told_if_full(file.parent):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            _sync(partial)
            partial.replace(file)
            _sync(file.parent)
        finally:
            partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _full(folder: Path, reason: str) -> FullDiskError:
    return FullDiskError(f"The disk of {folder} is full: {reason}. Make room there, and start again: nothing is lost.")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
