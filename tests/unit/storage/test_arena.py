"""The arena as a bounded cache: what is idle is dropped, what is pinned stays, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_tgat.engine import Engine, both_halves, settle
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.small import commit, rows, small_engine

CACHE = 200_000


def visit(engine: Engine, store: MemoryStore, first: int, count: int) -> None:
    """One interaction of each of `count` new users with one of ten items."""
    numbers = np.arange(first, first + count)
    batch = both_halves(
        np.char.add(b"u", numbers.astype("S8")),
        np.char.add(b"i", (numbers % 10).astype("S8")),
        np.char.zfill(numbers.astype("S8"), 8),
        numbers.astype(np.float64),
        np.ones((count, 1), np.float32),
    )
    engine.append(0, batch)
    settle(engine, 0, 2 * count)
    commit(engine, store)


def test_memory_is_bounded_while_nodes_grow_a_hundredfold() -> None:
    store = MemoryStore()
    engine = small_engine(cache_bytes=CACHE, store=store)
    slots = len(engine._arena.t.rows)
    for at in range(0, 10_000, 100):
        visit(engine, store, at, 100)
        assert engine.used_bytes() <= 1.2 * CACHE
    assert len(engine._arena.t.rows) == slots
    assert len(engine._arena.t.nodes) <= 2 * CACHE // engine._arena.node_bytes + 1024
    # All of them are still there, through the store.
    for number in (0, 1234, 9999):
        found = kept_rows(engine, 0, b"u%d" % number)
        assert found.interaction.tolist() == [b"%08d" % number]
        assert found.versions[:, 1].tolist() == [7]
    assert kept_rows(engine, 0, b"i3").degree == 1000


def test_least_recently_used_goes_first() -> None:
    store = MemoryStore()
    engine = small_engine(cache_bytes=CACHE, store=store)
    for at in range(0, 3_000, 50):
        visit(engine, store, at, 50)
        kept_rows(engine, 0, b"u7")
    places = engine._arena._places
    assert b"u7" in places
    assert b"u8" not in places
    assert b"u2999" in places


def test_pending_and_uncommitted_nodes_are_never_dropped() -> None:
    store = MemoryStore()
    engine = small_engine(cache_bytes=0, store=store, layers=1)
    engine.append(0, rows((b"wait", 1e9), node=b"waiting"))
    for k in range(300):
        engine.append(0, rows((b"%03d" % k, float(k)), node=b"n%d" % k))
    # Nothing was committed, and one is pending: all are there, above any bound.
    engine.compute({0: 1e6}, 1000)
    assert engine.pending() == 1
    assert len(engine._arena._places) == 301
    commit(engine, store)
    engine.append(0, rows((b"x", 1.0), node=b"another"))
    assert set(engine._arena._places) == {b"waiting", b"another"}


def test_rows_beyond_the_preallocated_slots_are_held_while_pinned() -> None:
    engine = small_engine(cache_bytes=0, layers=1)
    slots = len(engine._arena.t.rows)
    count = 3 * slots
    many = rows(*[(b"%05d" % k, float(k)) for k in range(count)], node=b"hub")
    engine.append(0, replace(many, origin=np.arange(count)))
    assert engine.pending() == count
    leaving, origins = [], []
    while engine.pending():
        embeddings = engine.compute({0: np.inf}, 100).embeddings
        leaving += embeddings.interaction.tolist()
        origins += embeddings.origin.tolist()
    assert leaving == [b"%05d" % k for k in range(count)]
    assert origins == list(range(count))


def test_dropped_partition_leaves_the_others_alone() -> None:
    stores = [MemoryStore(), MemoryStore()]
    engine = small_engine(store=stores[0], layers=1)
    engine.open(1, stores[1])
    for partition in (0, 1):
        for k in range(20):
            engine.append(partition, rows((b"%02d" % k, float(k)), node=b"p%d-%d" % (partition, k % 3)))
    engine.compute({1: 10.1}, 100)
    assert engine.pending() == 29
    engine.drop(0)
    assert engine.pending() == 9
    assert len(engine.compute({1: np.inf}, 100).embeddings) == 9
    assert {key[1:3] for key, _ in engine.take_changes(1)} == {b"p1"}
    engine.open(0, stores[0])
    assert kept_rows(engine, 0, b"p0-0").degree == 0
