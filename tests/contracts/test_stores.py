"""Every store keeps one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_tgat.storage.stores import MemoryStore, RocksStore, Store
from stream_tgat.transport import Application
from stream_tgat.transport.store import PartitionStore


@pytest.fixture(params=["memory", "rocks", "a worker's"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "rocks":
        rocks = RocksStore(tmp_path / "db")
        yield rocks
        rocks.close()
    else:
        app = Application("store", broker="kafka://localhost:1", datadir=str(tmp_path))
        bulk = app.bulk_table("state", partitions=2).data
        bulk.apply_records(1, [SimpleNamespace(key=b"of another partition", value=b"x", offset=0)])
        bulk.apply_records(0, [SimpleNamespace(key=b"first", value=None, offset=0)])  # opens it, and notes the offset
        yield PartitionStore(bulk, 0)
        bulk.close_partition(0)
        bulk.close_partition(1)


def test_values_come_back_in_the_order_asked(store: Store) -> None:
    store.write([(b"a\x00\xff", b"1"), (b"b", b""), (b"c", bytes(1000))])
    assert store.get_many([b"c", b"none", b"a\x00\xff", b"b", b"c"]) == [bytes(1000), None, b"1", b"", bytes(1000)]
    assert store.get_many([]) == []


def test_none_deletes_and_the_later_of_two_changes_holds(store: Store) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")])
    store.write([(b"a", None), (b"b", None), (b"b", b"2"), (b"never there", None)])
    assert store.get_many([b"a", b"b", b"never there"]) == [None, b"2", None]


def test_scan_gives_a_prefix_in_key_order(store: Store) -> None:
    store.write([(b"p\xff", b"4"), (b"o", b"x"), (b"p", b"1"), (b"p\x00", b"2"), (b"q", b"x"), (b"p1", b"3")])
    assert list(store.scan(b"p")) == [(b"p", b"1"), (b"p\x00", b"2"), (b"p1", b"3"), (b"p\xff", b"4")]
    assert list(store.scan(b"z")) == []


def test_scan_gives_once_and_in_order_what_is_not_written_while_it_runs(store: Store) -> None:
    kept = [(b"p%04d" % n, b"%d" % n) for n in range(1000)]
    store.write([*kept, *((b"p%04d-" % n, b"x") for n in range(1000))])
    scan = store.scan(b"p")
    seen = [next(scan)]
    store.write(
        [(b"p%04d-" % n, None if n % 2 else b"y") for n in range(1000)] + [(b"p%04d+" % n, b"z") for n in range(9)]
    )
    seen += scan
    assert [entry for entry in seen if len(entry[0]) == 5] == kept
    assert [key for key, _ in seen] == sorted({key for key, _ in seen})


CHANGE = st.tuples(st.binary(min_size=1, max_size=2), st.none() | st.binary(max_size=3))


@given(batches=st.lists(st.lists(CHANGE, max_size=8), max_size=6))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_writes_equal_a_dictionary(store: Store, batches: list[list[tuple[bytes, bytes | None]]]) -> None:
    store.write([(key, None) for key, _ in store.scan(b"")])
    expected: dict[bytes, bytes] = {}
    for batch in batches:
        store.write(batch)
        for key, value in batch:
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
    assert list(store.scan(b"")) == sorted(expected.items())
    assert store.get_many(list(expected)) == list(expected.values())


def test_rocks_store_is_there_after_it_was_closed(tmp_path: Path) -> None:
    first = RocksStore(tmp_path)
    first.write([(b"a", b"1")])
    first.close()
    second = RocksStore(tmp_path)
    assert second.get_many([b"a"]) == [b"1"]
    second.close()
