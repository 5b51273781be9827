"""RocksDB for one table: a database per partition, raw bytes, one cache for all.

Faust's own store opens each partition with a cache of 2 GiB, leaves closing to the garbage collector (so that the lock
outlives the partition) and writes the changelog offset apart from the data it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import rocksdict
from faust.stores import rocksdb
from faust.types import TP

from stream_tgat.errors import FencedError
from stream_tgat.rocks import RocksOptions, open_database
from stream_tgat.transport.changelog import Change

SCAN_CHUNK = 256


class PartitionStore:
    """The state of one partition: get_many, scan and write, as every store has them."""

    def __init__(self, store: BulkStore, partition: int) -> None:
        self._store = store
        self.partition = partition

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of keys, None where there is none."""
        return self._store.get_many(self.partition, keys)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin with a prefix, in order, with their values."""
        return self._store.scan(self.partition, prefix)

    def write(self, changes: Sequence[Change]) -> None:
        """Apply changes to the local database only, at once or not at all (commits go through the table)."""
        self._store.write(self.partition, changes, None)


class BulkStore(rocksdb.Store):
    """Faust's RocksDB store, in raw mode and in bulk."""

    def __init__(self, *arguments: Any, rocks_options: RocksOptions | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rocks = rocks_options or RocksOptions()
        self._cache = rocksdict.Cache(self._rocks.cache_bytes)

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of keys of a partition, None where there is none."""
        return list(self._opened(partition).get(list(keys))) if keys else []

    def scan(self, partition: int, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys of a partition that begin with a prefix, in order, with their values; Faust's own key is left out."""
        chunk = self._scan_chunk(partition, prefix, prefix)
        while chunk:
            yield from (pair for pair in chunk if pair[0] != self.offset_key)
            chunk = self._scan_chunk(partition, prefix, chunk[-1][0] + b"\0") if len(chunk) == SCAN_CHUNK else []

    def _scan_chunk(self, partition: int, prefix: bytes, start: bytes) -> list[tuple[bytes, bytes]]:
        """The next keys with a prefix. An iterator of RocksDB that outlives this call would keep the lock."""
        chunk: list[tuple[bytes, bytes]] = []
        for key, value in self._opened(partition).items(from_key=start):
            if len(chunk) == SCAN_CHUNK or not key.startswith(prefix):
                break
            chunk.append((key, value))
        return chunk

    def write(self, partition: int, changes: Iterable[Change], changelog_offset: int | None) -> None:
        """Write changes and the changelog offset that they reach as one write batch."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if changelog_offset is not None:
            batch.put(self.offset_key, str(changelog_offset).encode())
        self._opened(partition).write(batch)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:  # noqa: ARG002
        """Apply changelog events (Faust's own path of recovery), each partition with its offset."""
        by_partition: dict[int, list[Any]] = {}
        for event in batch:
            by_partition.setdefault(event.message.partition, []).append(event.message)
        for partition, messages in by_partition.items():
            self.apply_records(partition, messages)

    def apply_records(self, partition: int, records: Sequence[Any]) -> None:
        """Apply consecutive records of the changelog (anything with key, value and offset)."""
        self._db_for_partition(partition)
        self.write(partition, ((record.key, record.value) for record in records), records[-1].offset)

    def close_partition(self, partition: int) -> None:
        """Close the database of a partition, which frees its lock at once."""
        database = self._dbs.pop(partition, None)
        if database is not None:
            database.close()

    def revoke_partitions(self, table: Any, tps: Iterable[TP]) -> None:
        """Close the partitions that went to another worker."""
        topics = table.changelog_topic.topics
        for tp in tps:
            if tp.topic in topics:
                self.close_partition(tp.partition)

    async def stop(self) -> None:
        """Close all partitions."""
        for partition in list(self._dbs):
            self.close_partition(partition)

    def _opened(self, partition: int) -> Any:
        """The database of a partition of ours; opening one that went elsewhere would bring old state back."""
        try:
            return self._dbs[partition]
        except KeyError:
            raise FencedError(f"table {self.table_name}, partition {partition}: not open in this worker") from None

    def _open_for_partition(self, partition: int) -> Any:
        return open_database(self.partition_path(partition), self._rocks, self._cache)
