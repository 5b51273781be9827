"""Damage to the files of a RocksDB, as disks and crashes do it."""

from __future__ import annotations

import os
from pathlib import Path


def cut_tables(folder: Path) -> None:
    """Half of every table is gone: seen when the folder is opened."""
    for file in folder.glob("*.sst"):
        os.truncate(file, file.stat().st_size // 2)


def flip_manifest(folder: Path) -> None:
    """Bits of the list of tables are turned: seen when the folder is opened."""
    _flip(next(folder.glob("MANIFEST-*")), 10_000, 0.0, 1.0)


def lose_current(folder: Path) -> None:
    """The file that names the manifest is gone: seen when the folder is opened."""
    (folder / "CURRENT").unlink()


def flip_rows(folder: Path) -> None:
    """Bits in the middle of every table are turned: only a read tells."""
    for file in folder.glob("*.sst"):
        _flip(file, 64, 0.5, 0.8)


KINDS = (cut_tables, flip_manifest, lose_current, flip_rows)


def _flip(file: Path, every: int, begin: float, end: float) -> None:
    content = bytearray(file.read_bytes())
    for at in range(int(begin * len(content)), int(end * len(content)), every):
        content[at] ^= 0x10
    file.write_bytes(content)
