"""Every store keeps one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_tgat.storage.stores import MemoryStore, RocksStore, Store


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    rocks = RocksStore(tmp_path / "db")
    yield rocks
    rocks.close()


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


def test_scan_sees_the_store_as_it_was_when_it_began(store: Store) -> None:
    store.write([(b"p1", b"1"), (b"p2", b"2")])
    scan = store.scan(b"p")
    first = next(scan)
    store.write([(b"p2", None), (b"p3", b"3")])
    assert [first, *scan] == [(b"p1", b"1"), (b"p2", b"2")]


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
