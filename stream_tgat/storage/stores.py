"""Where the bytes of a partition lie: in memory for tests and single passes, in RocksDB for everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rocksdict import Cache

from stream_tgat.rocks import Change, RocksOptions, batch_of, entries, open_database


class Store(Protocol):
    """The smallest interface that does the job: point reads in bulk, a scan of a prefix, one atomic write."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none, in the order of `keys`."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key begins with `prefix`, in key order.

        What is written while it runs may be in it or not; all else is in it once.
        """

    def write(self, changes: Sequence[Change]) -> None:
        """All of `changes` or none, the later of two for one key; None deletes."""


class MemoryStore:
    """A dictionary with the manners of a store."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none."""
        get = self._entries.get
        return [get(key) for key in keys]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key begins with `prefix`, in key order."""
        return iter(sorted(entry for entry in self._entries.items() if entry[0].startswith(prefix)))

    def write(self, changes: Sequence[Change]) -> None:
        """Apply all changes, in order."""
        for key, value in changes:
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value


class RocksStore:
    """One RocksDB of raw bytes. block_cache: shared with others that are given it; by default one of its own."""

    def __init__(self, path: Path | str, *, block_cache: Cache | None = None) -> None:
        options = RocksOptions(cache_bytes=32 << 20)
        self._db = open_database(path, options, block_cache or Cache(options.cache_bytes))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none."""
        if not keys:
            return []
        values: list[bytes | None] = self._db.get(list(keys))
        return values

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key begins with `prefix`, in key order."""
        return entries(self._db, prefix, prefix)

    def write(self, changes: Sequence[Change]) -> None:
        """Apply all changes, in order: all or none of them are there after a crash."""
        self._db.write(batch_of(changes))

    def close(self) -> None:
        """Release the folder's lock at once, rather than when the garbage collector comes by."""
        self._db.close()
