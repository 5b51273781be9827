"""Receive is store: rows and peer embeddings are upserts in any order, and what was stored comes back."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stream_tgat.engine import Engine
from stream_tgat.errors import StateError
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.small import INFINITY, NODE, commit, left, peer_embeddings, reopen, rows, small_engine


def settle(engine: Engine) -> None:
    while engine.compute(INFINITY, 100).rows:
        pass


def test_repeated_half_edges_change_nothing() -> None:
    engine, store = small_engine(), MemoryStore()
    assert engine.append(0, rows((b"a", 1.0), (b"b", 2.0))).new.tolist() == [True, True]
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    settle(engine)
    commit(engine, store)
    assert not engine.append(0, rows((b"b", 2.0), (b"a", 1.0), (b"a", 1.0))).new.any()
    assert engine.take_changes(0) == []
    assert engine.pending() == 0
    assert kept_rows(engine, 0, NODE).degree == 2


def test_same_interaction_on_both_sides_is_two_rows() -> None:
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0)))
    assert engine.append(0, rows((b"a", 1.0), side=1)).new.all()
    assert kept_rows(engine, 0, NODE).side.tolist() == [0, 1]


def test_peer_embedding_first_of_a_version_stays_and_newer_version_replaces() -> None:
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0)))

    def peer_embedding() -> tuple[float, int]:
        found = kept_rows(engine, 0, NODE)
        return float(found.peer_embeddings[1][0, 0]), int(found.versions[0, 1])

    assert engine.fill(0, peer_embeddings((b"a", 1.0), value=0.25)) == 1
    assert engine.fill(0, peer_embeddings((b"a", 1.0), value=0.5)) == 0
    assert peer_embedding() == (0.25, 7)
    assert engine.fill(0, peer_embeddings((b"a", 1.0), value=0.5, version=6)) == 0
    assert peer_embedding() == (0.25, 7)
    assert engine.fill(0, peer_embeddings((b"a", 1.0), value=0.75, version=8)) == 1
    assert peer_embedding() == (0.75, 8)


@pytest.mark.parametrize("crash", [False, True])
def test_embedding_carries_the_origin_that_its_half_edge_first_came_with(crash: bool) -> None:
    engine, store = small_engine(), MemoryStore()

    def stored() -> None:
        commit(engine, store)
        if crash:
            reopen(engine, store)

    largest = np.iinfo(np.int64).max
    engine.fill(0, peer_embeddings((b"b", 2.0)))
    stored()
    engine.append(0, dataclasses.replace(rows((b"a", 1.0), (b"b", 2.0)), origin=np.array([0, largest])))
    engine.append(0, dataclasses.replace(rows((b"a", 1.0), (b"c", 3.0)), origin=np.array([5, 6])))
    engine.append(0, rows((b"d", 4.0)))
    stored()
    engine.fill(0, peer_embeddings((b"a", 1.0), (b"c", 3.0), (b"d", 4.0)))
    stored()
    computed = engine.compute(INFINITY, 100)
    assert left(computed) == [b"a", b"b", b"c", b"d"]
    assert computed.embeddings.origin.tolist() == [0, largest, 6, -1]


@pytest.mark.parametrize("crash", [False, True])
def test_peer_embedding_before_its_row_makes_an_invisible_placeholder_until_the_half_edge_comes(crash: bool) -> None:
    engine, store = small_engine(), MemoryStore()
    engine.append(0, rows((b"b", 2.0)))
    engine.fill(0, peer_embeddings((b"a", 1.0), value=0.25))
    assert kept_rows(engine, 0, NODE).interaction.tolist() == [b"b"]
    assert kept_rows(engine, 0, NODE).degree == 1
    assert engine.pending() == 1
    # Invisible to queries too: b is the same as without any past.
    alone = small_engine()
    alone.append(0, rows((b"b", 2.0)))
    settle_one = [e.compute(INFINITY, 10).embeddings for e in (engine, alone)]
    np.testing.assert_array_equal(settle_one[0].embedding, settle_one[1].embedding)
    commit(engine, store)
    if crash:
        reopen(engine, store)
        assert kept_rows(engine, 0, NODE).interaction.tolist() == [b"b"]
    assert engine.append(0, rows((b"a", 1.0))).new.all()
    found = kept_rows(engine, 0, NODE)
    assert found.interaction.tolist() == [b"a", b"b"]
    assert found.peer_embeddings[1][0].tolist() == [0.25] * 8
    assert found.peer.tolist() == [b"peer-a", b"peer-b"]
    settle(engine)
    commit(engine, store)
    reopen(engine, store)
    again = kept_rows(engine, 0, NODE)
    for name in ("interaction", "peer", "side", "time", "late", "edge", "versions"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    np.testing.assert_array_equal(again.peer_embeddings[1], found.peer_embeddings[1])


def test_peer_embeddings_of_rows_long_gone_leave_few_stubs() -> None:
    engine, store = small_engine(), MemoryStore()
    times = [(b"%03d" % k, float(k)) for k in range(40)]
    for entry in times:
        engine.append(0, rows(entry))
        engine.fill(0, peer_embeddings(entry))
        settle(engine)
    commit(engine, store)
    rows_before = len(list(store.scan(b"r")))
    engine.fill(0, peer_embeddings(*times))
    changes = dict(commit(engine, store))
    assert len([key for key in changes if key[:1] == b"r"]) <= 4
    assert len(list(store.scan(b"r"))) <= rows_before + 4
    assert kept_rows(engine, 0, NODE).degree == 40


def test_changes_are_exactly_what_changed() -> None:
    engine, store = small_engine(), MemoryStore()

    def kinds() -> list[bytes]:
        return sorted(key[:1] for key, _ in commit(engine, store))

    engine.append(0, rows((b"a", 1.0)))
    assert kinds() == [b"h", b"p", b"r"]
    assert kinds() == []
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    assert kinds() == [b"m"]
    settle(engine)
    assert kinds() == [b"h", b"p"]
    assert not list(store.scan(b"p"))
    engine.append(0, rows((b"a", 1.0)))
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    assert kinds() == []
    engine.append(0, rows((b"b", 2.0)))
    settle(engine)
    assert kinds() == [b"h", b"r"]


def test_values_of_a_kind_have_one_width_and_the_estimate_is_not_below() -> None:
    engine = small_engine(node_features=2)
    engine.set_features(0, np.array([NODE, b"n1"]), np.ones((2, 2), np.float32))
    for k in range(30):
        engine.append(0, rows((b"%02d" % k, float(k)), node=b"n%d" % (k % 5)))
        engine.fill(0, peer_embeddings((b"%02d" % k, float(k)), node=b"n%d" % (k % 5)))
        settle(engine)
    estimate = engine.changes_bytes(0)
    changes = engine.take_changes(0)
    widths: dict[bytes, set[int]] = {}
    for key, value in changes:
        if key[:1] in b"rmfp" and value is not None:
            widths.setdefault(key[:1] + key[-1:] if key[:1] == b"m" else key[:1], set()).add(len(value))
    assert all(len(found) == 1 for found in widths.values())
    size = sum(len(key) + len(value or b"") for key, value in changes)
    assert size <= estimate <= 3 * size


def test_changes_are_told_once_and_committed_in_their_order() -> None:
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0)))
    first = engine.take_changes(0)
    assert engine.take_changes(0) == []
    engine.append(0, rows((b"b", 2.0)))
    second = engine.take_changes(0)
    assert [len([key for key, _ in taken if key[:1] == b"r"]) for taken in (first, second)] == [1, 1]
    engine.committed(0)
    engine.committed(0)
    with pytest.raises(StateError, match="partition 0: no changes"):
        engine.committed(0)


def test_node_stays_in_memory_until_all_of_its_changes_are_committed() -> None:
    store = MemoryStore()
    engine = small_engine(store=store, cache_bytes=0, layers=1)
    taken = []
    for k in range(2):
        engine.append(0, rows((b"%d" % k, float(k))))
        engine.compute({0: np.inf}, 10)
        taken.append(engine.take_changes(0))
    for changes in taken:
        # Another node comes in, and the cache has no room; read from its store, this one would have lost rows.
        engine.append(0, rows((b"x", 1.0), node=b"other"))
        engine.compute({0: np.inf}, 10)
        kept_rows(engine, 0, b"third")
        assert kept_rows(engine, 0, NODE).interaction.tolist() == [b"0", b"1"]
        store.write(changes)
        engine.committed(0)
    kept_rows(engine, 0, b"third")
    assert kept_rows(engine, 0, NODE).interaction.tolist() == [b"0", b"1"]


def test_partition_out_of_turn_is_refused() -> None:
    engine = small_engine()
    with pytest.raises(StateError, match="open already"):
        engine.open(0, MemoryStore())
    with pytest.raises(StateError, match="partition 3 is not open"):
        engine.append(3, rows((b"a", 1.0)))


def test_wrong_widths_are_refused() -> None:
    engine = small_engine()
    with pytest.raises(ValueError, match="edge features"):
        engine.append(0, dataclasses.replace(rows((b"a", 1.0)), edge=np.zeros((1, 2), np.float32)))
    with pytest.raises(ValueError, match="peer embeddings of layer 1"):
        engine.fill(0, dataclasses.replace(peer_embeddings((b"a", 1.0)), vectors=np.zeros((1, 3), np.float32)))
    with pytest.raises(ValueError, match="longer than 16"):
        engine.append(0, rows((b"x" * 17, 1.0)))
    with pytest.raises(ValueError, match="longer than 16"):
        engine.append(0, rows((b"a", 1.0), node=b"n" * 17))


def test_store_without_a_row_that_a_head_lists_is_refused() -> None:
    engine, store = small_engine(), MemoryStore()
    engine.append(0, rows((b"a", 1.0)))
    commit(engine, store)
    store.write([(key, None) for key, _ in store.scan(b"r")])
    with pytest.raises(StateError, match="lacks a row"):
        reopen(engine, store)


def test_dropped_partition_forgets_what_was_not_committed() -> None:
    engine, store = small_engine(), MemoryStore()
    engine.append(0, rows((b"a", 1.0)))
    commit(engine, store)
    engine.append(0, rows((b"b", 2.0)))
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    reopen(engine, store)
    found = kept_rows(engine, 0, NODE)
    assert found.interaction.tolist() == [b"a"]
    assert found.versions.tolist() == [[-1, -1]]
    assert engine.pending() == 1


def test_arrays_of_any_layout_compile_once() -> None:
    from stream_tgat.storage import rows as compiled_rows

    engine = small_engine()
    half = rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0), (b"d", 4.0))
    engine.append(0, half)
    before = len(compiled_rows.append_rows.signatures)  # type: ignore[attr-defined]
    engine.append(0, half.take(slice(None, None, 2)))
    frozen = half.take(np.arange(4))
    for field in dataclasses.fields(frozen):
        getattr(frozen, field.name).flags.writeable = False
    engine.append(0, frozen)
    assert len(compiled_rows.append_rows.signatures) == before  # type: ignore[attr-defined]


@pytest.mark.parametrize("crash", [False, True])
def test_same_id_with_another_peer_or_time_is_another_row(crash: bool) -> None:
    engine, store = small_engine(), MemoryStore()

    def stored() -> None:
        commit(engine, store)
        if crash:
            reopen(engine, store)

    basket = rows((b"a", 1.0), (b"a", 1.0), (b"a", 2.0), peers=(b"tea", b"jam", b"tea"))
    assert engine.append(0, basket).new.all()
    stored()
    # A peer embedding finds the row of its sender, also where it comes first.
    engine.fill(0, peer_embeddings((b"a", 1.0), (b"a", 3.0), value=0.25, peers=(b"tea", b"tea")))
    engine.fill(0, peer_embeddings((b"a", 1.0), (b"a", 3.0), value=0.75, peers=(b"jam", b"jam")))
    stored()
    assert not engine.append(0, basket).new.any()
    assert engine.append(0, rows((b"a", 3.0), (b"a", 3.0), peers=(b"tea", b"jam"))).new.all()
    stored()
    found = kept_rows(engine, 0, NODE)
    assert list(zip(found.time, found.peer, found.peer_embeddings[1][:, 0], strict=True)) == [
        (1.0, b"jam", 0.75),
        (1.0, b"tea", 0.25),
        (2.0, b"tea", 0.0),
        (3.0, b"jam", 0.75),
        (3.0, b"tea", 0.25),
    ]
    assert found.degree == 5


def test_repeat_with_other_features_is_told_and_the_first_features_stay() -> None:
    engine = small_engine()
    first = rows((b"a", 1.0), (b"b", 2.0))
    engine.append(0, first)
    other = dataclasses.replace(first, edge=first.edge + np.array([[0.0], [1.0]], np.float32))
    appended = engine.append(0, other)
    assert (appended.new.tolist(), appended.differs.tolist()) == ([False, False], [False, True])
    np.testing.assert_array_equal(kept_rows(engine, 0, NODE).edge, first.edge)


def test_rows_of_one_id_and_time_are_in_the_order_of_user_and_item() -> None:
    # The node is n0: as user it met m and z, as item a and z, and it met itself.
    engine = small_engine(candidates=9)
    one = ((b"a", 1.0),)
    for peer in (b"z", b"m", NODE):
        engine.append(0, rows(*one, peers=(peer,)))
    for peer in (b"z", NODE, b"a"):
        engine.append(0, rows(*one, side=1, peers=(peer,)))
    found = kept_rows(engine, 0, NODE)
    assert list(zip(found.side, found.peer, strict=True)) == [
        (1, b"a"),
        (0, b"m"),
        (0, NODE),
        (1, NODE),
        (0, b"z"),
        (1, b"z"),
    ]
