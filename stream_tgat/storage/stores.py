"""Where the bytes of a partition lie: in memory for tests and single passes, in RocksDB for everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class Store(Protocol):
    """The smallest interface that does the job: point reads in bulk, a scan of a prefix, one atomic write."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none, in the order of `keys`."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key begins with `prefix`, in key order."""

    def write(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """All of `changes` or none; None deletes."""
