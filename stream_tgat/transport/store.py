"""RocksDB for one table: a database per partition, raw bytes, one cache for all.

Faust's own store opens each partition with a cache of 2 GiB, leaves closing to the garbage collector (so that the lock
outlives the partition) and writes the changelog offset apart from the data it stands for.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from faust.stores import rocksdb
from faust.types import TP
from mode import get_logger
from rocksdict import Cache

from stream_tgat.disk import check_room, told_if_full
from stream_tgat.errors import DamagedStateError, FencedError, StateError, StreamTgatError
from stream_tgat.rocks import Change, RocksOptions, batch_of, entries, first_line, is_damage, open_database

logger = get_logger(__name__)

SCAN_CHUNK = 256
DAMAGED = ".damaged-"
"""Follows the name of a partition's folder that was set aside, before the unix time of that."""
DAMAGED_AGAIN_S = 600
"""A partition that is damaged again so soon is not rebuilt once more: the disk is at fault."""


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

    def __init__(
        self,
        *arguments: Any,
        rocks_options: RocksOptions | None = None,
        on_damage: Callable[[int], None] = lambda _: None,
        **options: Any,
    ) -> None:
        """on_damage: told, from any thread, which partition's state was set aside"""
        super().__init__(*arguments, **options)
        self._on_damage = on_damage
        self._rocks = rocks_options or RocksOptions()
        self._cache = Cache(self._rocks.cache_bytes)

    @cached_property
    def path(self) -> Path:
        """Where the databases are; Faust asks its settings each time, which takes as long as writing some rows."""
        return Path(self.app.conf.tabledir)

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of keys of a partition, None where there is none."""
        with self._using(partition) as database:
            return list(database.get(list(keys))) if keys else []

    def scan(self, partition: int, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys of a partition that begin with a prefix, in order, with their values; Faust's own key is left out."""
        chunk = self._scan_chunk(partition, prefix, prefix)
        while chunk:
            yield from (pair for pair in chunk if pair[0] != self.offset_key)
            chunk = self._scan_chunk(partition, prefix, chunk[-1][0] + b"\0") if len(chunk) == SCAN_CHUNK else []

    def _scan_chunk(self, partition: int, prefix: bytes, start: bytes) -> list[tuple[bytes, bytes]]:
        """The next keys with a prefix. An iterator of RocksDB that outlives this call would keep the lock."""
        with self._using(partition) as database:
            return list(islice(entries(database, prefix, start), SCAN_CHUNK))

    @property
    def block_cache_bytes(self) -> int:
        """Memory of the blocks that are kept over all partitions."""
        return int(self._cache.get_usage())

    def figures(self, names: Sequence[str]) -> dict[str, int]:
        """RocksDB's own figures ("rocksdb.…") summed over the open partitions."""
        found = dict.fromkeys(names, 0)
        for database in list(self._dbs.values()):
            for name in names:
                found[name] += database.property_int_value(name) or 0
        return found

    def check_room(self) -> None:
        """Raise FullDiskError unless the disk has room for more."""
        check_room(self.path)

    def write(self, partition: int, changes: Iterable[Change], changelog_offset: int | None) -> None:
        """Write changes and the changelog offset that they reach as one write batch."""
        batch = batch_of(changes)
        if changelog_offset is not None:
            batch.put(self.offset_key, str(changelog_offset).encode())
        with self._using(partition) as database, told_if_full(self.path):
            database.write(batch)

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
        self.check_room()
        self.write(partition, ((record.key, record.value) for record in records), records[-1].offset)

    def close_partition(self, partition: int) -> None:
        """Close the database of a partition, which frees its lock at once."""
        database = self._dbs.pop(partition, None)
        if database is not None:
            try:
                database.close()
            except Exception as problem:  # noqa: BLE001
                # RocksDB's errors come as bare exceptions. What did not reach the disk, the changelog has.
                logger.warning(
                    "Table %s, partition %d: not all of it was written when it was closed (%s); the changelog has it",
                    self.table_name,
                    partition,
                    first_line(problem),
                )

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

    @contextmanager
    def _using(self, partition: int) -> Iterator[Any]:
        """The database of a partition. Where it turns out to be damaged it is set aside, with DamagedStateError."""
        database = self._opened(partition)
        try:
            yield database
        except Exception as problem:
            if isinstance(problem, StreamTgatError) or not is_damage(problem):
                raise
            self.close_partition(partition)
            self._set_aside(partition, first_line(problem))
            raise DamagedStateError(
                f"table {self.table_name}, partition {partition}: its local state is damaged and is recovered anew"
            ) from problem

    def _open_for_partition(self, partition: int) -> Any:
        try:
            return self._open_with_offset(self.partition_path(partition))
        except DamagedStateError as damage:
            self._set_aside(partition, str(damage))
            # Empty: what it held is recovered from the changelog.
            return self._open_with_offset(self.partition_path(partition))

    def _open_with_offset(self, path: Path) -> Any:
        """Open a database whose offset can be read, with which recovery begins."""
        database = open_database(path, self._rocks, self._cache)
        try:
            database.get(self.offset_key)
        except Exception as problem:
            database.close()
            if not is_damage(problem):
                raise
            raise DamagedStateError(f"{path}: {first_line(problem)}") from problem
        return database

    def _set_aside(self, partition: int, reason: str) -> None:
        """Rename a partition's folder, and keep only the newest such; StateError if it happens again and again."""
        path, now = self.partition_path(partition), int(time.time())
        before = list(path.parent.glob(f"{path.name}{DAMAGED}*"))
        if any(now - int(each.name.rpartition("-")[2]) < DAMAGED_AGAIN_S for each in before):
            raise StateError(
                f"{path} is damaged again, within {DAMAGED_AGAIN_S // 60} minutes ({reason}). Check the disk; then "
                f"delete {path} and {before[0].name} beside it, and start the worker again: the state is recovered "
                "from the changelog."
            )
        aside = path.with_name(f"{path.name}{DAMAGED}{now}")
        path.rename(aside)
        logger.error(
            "The local state of table %s, partition %d, is damaged (%s): it is now %s, and is recovered from the "
            "changelog",
            self.table_name,
            partition,
            reason,
            aside,
        )
        for older in before:
            shutil.rmtree(older, ignore_errors=True)
        self._on_damage(partition)
