"""Files of RocksDB that are not what was written: told, set aside, counted, and never read as if they were right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faust.types import TP
from rocksdict import Cache

from stream_tgat.errors import DamagedStateError, FencedError, StateError
from stream_tgat.rocks import RocksOptions, entries, is_damage, open_database
from stream_tgat.transport import Application, TransportOptions
from stream_tgat.transport.store import DAMAGED, BulkStore

WANTED = {b"k%05d" % number: b"%d-" % number * 20 for number in range(4000)}
OFFSET = TP("x", 0)


class Rejoined(Application):
    """Notes that the group is asked to assign anew."""

    rejoins = 0

    def rejoin(self) -> None:
        self.rejoins += 1


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Any]:
    options = TransportOptions(rocks=RocksOptions(cache_bytes=2**20))
    app = Rejoined("damage", broker="kafka://localhost:1", datadir=str(tmp_path), options=options)
    table = app.bulk_table("state", partitions=2)
    store: BulkStore = table.data
    store._db_for_partition(0)
    items = list(WANTED.items())
    for part in range(2):
        store.write(0, items[part * 2000 : (part + 1) * 2000], part)
        store._dbs[0].flush()
    store.close_partition(0)
    yield table
    store.close_partition(0)


def _files(table: Any, pattern: str) -> list[Path]:
    return sorted(table.data.partition_path(0).glob(pattern))


def _flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0x40
    file.write_bytes(content)


def _aside(table: Any) -> list[Path]:
    path = table.data.partition_path(0)
    return list(path.parent.glob(f"{path.name}{DAMAGED}*"))


def _cut_in_half(table: Any) -> None:
    for file in _files(table, "*.sst"):
        os.truncate(file, file.stat().st_size // 2)


DAMAGES: dict[str, Callable[[Any], None]] = {
    "sst cut to half": _cut_in_half,
    "sst gone": lambda table: _files(table, "*.sst")[0].unlink(),
    "sst footer": lambda table: _flip(_files(table, "*.sst")[0], -8),
    "manifest flipped": lambda table: _flip(_files(table, "MANIFEST-*")[0], 100),
    "manifest gone": lambda table: _files(table, "MANIFEST-*")[0].unlink(),
    "current gone": lambda table: _files(table, "CURRENT")[0].unlink(),
    "current flipped": lambda table: _flip(_files(table, "CURRENT")[0], 3),
    "current empty": lambda table: _files(table, "CURRENT")[0].write_bytes(b""),
    "all but ssts gone": lambda table: [f.unlink() for f in _files(table, "*") if f.suffix != ".sst"],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folder_is_set_aside_when_it_is_opened(
    table: Any, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    DAMAGES[damage](table)
    # None: recovery begins with the first record of the changelog.
    assert table.data.persisted_offset(OFFSET) is None
    assert table.data.get_many(0, [b"k00000"]) == [None]
    assert (len(_aside(table)), table.damaged, table.app.rejoins) == (1, 1, 0)
    (told,) = [record for record in caplog.records if "damaged" in record.getMessage()]
    assert told.levelname == "ERROR"
    assert "\n" not in told.getMessage()
    assert "partition 0" in told.getMessage()
    assert "changelog" in told.getMessage()


def _read_all(folder: Path) -> None:
    """By scan and by key, the latter through the filter that says which keys are not there."""
    database = open_database(folder, RocksOptions(), Cache(2**20))
    try:
        assert dict(entries(database, b"k", b"k")) == WANTED
        assert database.get(list(WANTED)) == list(WANTED.values())
    finally:
        database.close()


def test_byte_flipped_anywhere_in_a_table_file_is_noticed_or_changes_nothing(table: Any, tmp_path: Path) -> None:
    path = table.data.partition_path(0)
    size = _files(table, "*.sst")[0].stat().st_size
    noticed = 0
    for number, at in enumerate(range(0, size, size // 40)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(path, copy)
        _flip(min(copy.glob("*.sst")), at)
        try:
            _read_all(copy)
        except DamagedStateError:
            noticed += 1
        except Exception as problem:
            # rocksdict's errors are bare exceptions.
            if not is_damage(problem):
                raise
            noticed += 1
    assert noticed > 30


@pytest.mark.parametrize("use", ["get", "scan"])
def test_damage_found_by_a_read_has_the_partition_recovered_anew(table: Any, use: str) -> None:
    for file in _files(table, "*.sst"):
        # Behind the first block, which holds the offset that is read when the folder is opened.
        for at in range(file.stat().st_size // 4, file.stat().st_size // 2, 512):
            _flip(file, at)
    store = table.data
    store._db_for_partition(0)
    table.open_partition(0, 2)
    with pytest.raises(DamagedStateError, match="partition 0"):
        store.get_many(0, list(WANTED)) if use == "get" else list(store.scan(0, b"k"))
    assert (len(_aside(table)), table.damaged, table.app.rejoins) == (1, 1, 1)
    # Nothing is read or written until it is recovered.
    with pytest.raises(FencedError):
        store.get_many(0, [b"k00000"])
    with pytest.raises(FencedError):
        store.write(0, [(b"a", b"1")], 7)
    assert store.persisted_offset(OFFSET) is None


def test_damage_that_comes_again_at_once_stops_the_worker_with_the_reason(table: Any) -> None:
    store = table.data
    _cut_in_half(table)
    assert store.persisted_offset(OFFSET) is None
    store.write(0, list(WANTED.items()), 7)
    store._dbs[0].flush()
    store.close_partition(0)
    _cut_in_half(table)
    with pytest.raises(StateError, match=r"damaged again.*Check the disk"):
        store.persisted_offset(OFFSET)
    assert (len(_aside(table)), table.damaged) == (1, 1)


def test_only_the_newest_damaged_folder_is_kept(table: Any) -> None:
    path = table.data.partition_path(0)
    old = path.with_name(f"{path.name}{DAMAGED}1000000000")
    old.mkdir()
    DAMAGES["current gone"](table)
    assert table.data.persisted_offset(OFFSET) is None
    (aside,) = _aside(table)
    assert aside != old


def test_torn_write_ahead_log_is_applied_up_to_the_tear(table: Any, tmp_path: Path) -> None:
    """Each batch whole or not at all, together with its offset: recovery goes on from there."""
    store: BulkStore = table.data
    store._db_for_partition(0)
    for offset in range(2, 12):
        store.write(0, [(b"n%d" % offset, bytes(500)), (b"newest", b"%d" % offset)], offset)
    torn = tmp_path / "torn" / "state-0.db"
    # As a loss of power leaves it: nothing was closed.
    shutil.copytree(store.partition_path(0), torn, ignore=shutil.ignore_patterns("LOCK"))
    log = max(torn.glob("*.log"), key=lambda file: file.stat().st_size)
    whole = log.stat().st_size
    for size in (whole - 1, whole // 2, whole // 3, 0):
        os.truncate(log, min(size, log.stat().st_size))
        copy = tmp_path / f"copy-{size}"
        shutil.copytree(torn, copy)
        database = open_database(copy, RocksOptions(), Cache(2**20))
        offset = int(database.get(store.offset_key))
        there = [number for number in range(2, 12) if database.get(b"n%d" % number) is not None]
        newest = database.get(b"newest")
        database.close()
        assert there == list(range(2, offset + 1))
        assert newest == (b"%d" % offset if there else None)


def test_folder_that_another_process_has_open_is_no_damage(table: Any) -> None:
    path = table.data.partition_path(0)
    database = open_database(path, RocksOptions(), Cache(2**20))
    with pytest.raises(StateError, match=r"another process has it open.*--datadir"):
        open_database(path, RocksOptions(), Cache(2**20))
    database.close()
    assert not _aside(table)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_folder_without_permission_is_no_damage(table: Any) -> None:
    path = table.data.partition_path(0)
    path.chmod(0o500)
    try:
        with pytest.raises(StateError, match="Correct the owner"):
            open_database(path, RocksOptions(), Cache(2**20))
    finally:
        path.chmod(0o700)
    assert not _aside(table)
