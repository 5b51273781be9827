"""RocksDB per partition: atomic with the offset, closed when told to, one cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
import rocksdict
from faust.stores.rocksdb import Store
from faust.types import TP

from stream_tgat.errors import FencedError
from stream_tgat.transport import Application, RocksOptions, TransportOptions
from stream_tgat.transport.store import BulkStore


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Any]:
    options = TransportOptions(rocks=RocksOptions(cache_bytes=5 * 2**20))
    app = Application("store", broker="kafka://localhost:1", datadir=str(tmp_path), options=options)
    table = app.bulk_table("state", partitions=2)
    yield table
    for partition in (0, 1):
        table.data.close_partition(partition)


@pytest.fixture
def store(table: Any) -> BulkStore:
    for partition in (0, 1):
        table.data._db_for_partition(partition)
    return table.data


def _record(key: bytes, value: bytes | None, offset: int) -> Any:
    return SimpleNamespace(key=key, value=value, offset=offset)


def test_written_changes_are_read_from_their_partition_only(store: BulkStore) -> None:
    store.write(0, [(b"a", b"1"), (b"b", b"2"), (b"c", b"")], 7)
    store.write(0, [(b"b", None)], 8)
    assert store.get_many(0, [b"c", b"b", b"a"]) == [b"", None, b"1"]
    assert store.get_many(1, [b"a"]) == [None]
    assert store.get_many(0, []) == []
    assert store.persisted_offset(TP("x", 0)) == 8
    assert store.persisted_offset(TP("x", 1)) is None


def test_scan_returns_a_prefix_in_order_without_fausts_own_key(store: BulkStore) -> None:
    store.write(0, [(b"r|2", b"y"), (b"r|1", b"x"), (b"q", b""), (b"s", b""), (b"r|10", b"z")], 3)
    assert list(store.scan(0, b"r|")) == [(b"r|1", b"x"), (b"r|10", b"z"), (b"r|2", b"y")]
    assert [key for key, _ in store.scan(0, b"")] == [b"q", b"r|1", b"r|10", b"r|2", b"s"]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512, 600])
def test_scan_of_any_length_is_complete(store: BulkStore, count: int) -> None:
    keys = [b"r|%05d" % number for number in range(count)]
    store.write(0, [*((key, key) for key in keys), (b"q", b""), (b"s", b"")], 3)
    assert list(store.scan(0, b"r|")) == [(key, key) for key in keys]
    assert len(list(store.scan(0, b""))) == count + 2


def test_data_and_offset_are_written_as_one_batch(store: BulkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock writes the offset by itself afterwards: a kill in between applies the changelog to newer data."""
    writes: list[rocksdict.WriteBatch] = []
    monkeypatch.setitem(store._dbs, 0, SimpleNamespace(write=writes.append, close=lambda: None))
    store.write(0, [(b"a", b"1"), (b"b", None)], 7)
    store.apply_records(0, [_record(b"c", b"3", 8), _record(b"d", None, 9)])
    assert [len(batch) for batch in writes] == [3, 3]


def test_changelog_records_are_applied_with_the_offset_of_the_last(store: BulkStore) -> None:
    store.write(0, [(b"gone", b"1")], 1)
    store.apply_records(0, [_record(b"a", b"1", 2), _record(b"gone", None, 3), _record(b"a", b"2", 4)])
    assert store.get_many(0, [b"a", b"gone"]) == [b"2", None]
    assert store.persisted_offset(TP("x", 0)) == 4


def test_closed_partition_frees_its_lock_at_once_even_if_it_is_being_scanned(store: BulkStore) -> None:
    store.write(0, [(b"a", b"1"), (b"b", b"2")], 1)
    scan = store.scan(0, b"")
    next(scan)
    path = str(store.partition_path(0))
    with pytest.raises(Exception, match=r"(?i)lock"):
        rocksdict.Rdict(path, options=rocksdict.Options(raw_mode=True))
    store.close_partition(0)
    again = rocksdict.Rdict(path, options=rocksdict.Options(raw_mode=True))
    assert again.get(b"a") == b"1"
    again.close()


def test_stock_store_keeps_the_lock_of_a_partition_in_use(tmp_path: Path) -> None:
    """Why closing is explicit: anything that still refers to a stock database keeps its lock."""
    app = faust.App("stock", broker="kafka://localhost:1", datadir=str(tmp_path), store="rocksdb://")
    table = app.Table("state", partitions=1)
    stock: Store = table.data
    database = stock._db_for_partition(0)
    stock.revoke_partitions(table, {TP(table.changelog_topic_name, 0)})
    path = str(stock.partition_path(0))
    with pytest.raises(Exception, match=r"(?i)lock"):
        rocksdict.Rdict(path, options=rocksdict.Options(raw_mode=True))
    database.close()


def test_partition_that_is_not_open_is_refused_rather_than_opened(table: Any) -> None:
    store = table.store(1)
    for use in (lambda: store.get_many([b"a"]), lambda: list(store.scan(b"")), lambda: store.write([(b"a", b"1")])):
        with pytest.raises(FencedError, match="partition 1: not open"):
            use()
    assert not table.data.partition_path(1).exists()


def test_revoked_partition_is_closed_and_others_stay_open(table: Any, store: BulkStore) -> None:
    store.revoke_partitions(table, {TP(table.changelog_topic_name, 0), TP("something-else", 1)})
    assert set(store._dbs) == {1}


def test_all_partitions_share_one_cache_of_the_size_asked_for(store: BulkStore) -> None:
    """Stock opens each partition with a cache of 2 GiB of its own."""
    for partition in (0, 1):
        store.write(partition, [(b"%d" % number, bytes(1000)) for number in range(3000)], 1)
        store._dbs[partition].flush()
    capacities = {store._dbs[p].property_int_value("rocksdb.block-cache-capacity") for p in (0, 1)}
    assert capacities == {5 * 2**20}
    before = store._dbs[1].property_int_value("rocksdb.block-cache-usage")
    assert len(list(store.scan(0, b""))) == 3000
    after = store._dbs[1].property_int_value("rocksdb.block-cache-usage")
    assert after > before + 10**6, "reading partition 0 fills the cache that partition 1 uses"


def test_table_refuses_single_keys_and_shows_them(table: Any, store: BulkStore) -> None:
    store.write(0, [(b"a", b"1")], 5)
    with pytest.raises(TypeError, match="use commit"):
        table[b"a"] = b"2"
    with pytest.raises(TypeError, match="use commit"):
        del table[b"a"]
    assert store.get_many(0, [b"a"]) == [b"1"]
    assert table[b"a"] == b"1"
    assert b"a" in table
