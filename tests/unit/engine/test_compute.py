"""Compute when ready: when a row may go up a layer, in which order embeddings leave, and what waits how long."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.engine import selection
from stream_tgat.engine.forward import Forward
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import uniform
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.small import INFINITY, NODE, commit, left, peer_embeddings, reopen, rows, small_engine


def test_row_waits_for_the_watermark() -> None:
    engine = small_engine()
    engine.append(0, rows((b"b", 5.0)))
    assert left(engine.compute({0: 4.999}, 10)) == []
    assert left(engine.compute({}, 10)) == []
    # At its own time the row could go, but for the order: a row of the same time with a smaller id may still come.
    assert left(engine.compute({0: 5.0}, 10)) == []
    engine.append(0, rows((b"a", 5.0)))
    assert left(engine.compute({0: 5.001}, 10)) == [b"a", b"b"]


def test_row_waits_for_the_peer_embeddings_of_what_it_samples() -> None:
    # K = 2: c sees a and b, d sees b and c.
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0), (b"d", 4.0)))
    engine.fill(0, peer_embeddings((b"b", 2.0)))
    # b needs a, so nothing behind it may leave; layer 1 of all does not wait.
    computed = engine.compute(INFINITY, 10)
    assert left(computed) == [b"a"]
    assert [len(message) for message in computed.peer_embeddings] == [4]
    engine.fill(0, peer_embeddings((b"c", 3.0)))
    assert left(engine.compute(INFINITY, 10)) == []
    engine.fill(0, peer_embeddings((b"a", 1.0)))
    assert left(engine.compute(INFINITY, 10)) == [b"b", b"c", b"d"]


def test_row_does_not_wait_for_peer_embeddings_of_what_it_does_not_sample() -> None:
    # K = 2, and layer 1 reads peer embeddings of layer 0: d sees b and c, whose peer embeddings are there; b and c see
    # a, whose is not.
    engine = small_engine(node_features=1)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0), (b"d", 4.0)))
    peer_embedding = peer_embeddings((b"b", 2.0), (b"c", 3.0))
    engine.fill(0, dataclasses.replace(peer_embedding, vectors=np.ones((2, 1), np.float32), layer=0))
    messages = {message.layer: message.interaction.tolist() for message in engine.compute(INFINITY, 10).peer_embeddings}
    assert messages == {0: [b"a", b"b", b"c", b"d"], 1: [b"a", b"d"]}


def test_embeddings_of_a_node_leave_in_order_of_time_id_and_side() -> None:
    engine = small_engine()
    engine.append(0, rows((b"c", 1.0), (b"a", 2.0)))
    engine.append(0, rows((b"b", 1.0)))
    engine.append(0, rows((b"b", 1.0), side=1))
    engine.fill(0, peer_embeddings((b"c", 1.0)))
    first = engine.compute(INFINITY, 10)
    # a sees c and the second b, whose peer embedding has not come.
    assert list(zip(left(first), first.embeddings.side.tolist(), strict=True)) == [(b"b", 0), (b"b", 1), (b"c", 0)]


def test_rows_behind_many_that_wait_go_all_the_same() -> None:
    # Far more wait for the watermark of their own partition, or for peer embeddings, than a pass looks through at once.
    engine = small_engine()
    engine.open(1, MemoryStore())
    engine.append(0, rows(*[(b"%03d" % k, float(k)) for k in range(100)]))
    engine.append(1, rows(*[(b"z%02d" % k, 200.0 + k) for k in range(20)], node=b"n1"))
    leaving, levels = [], {0: 50.0, 1: np.inf}
    while (computed := engine.compute(levels, 2)).rows:
        leaving += left(computed)
    # Nobody has sent a peer embedding, so of each node only the oldest is complete.
    assert leaving == [b"000", b"z00"]
    assert engine.pending() == 118
    times = [(b"z%02d" % k, 200.0 + k) for k in range(20)]
    engine.fill(1, peer_embeddings(*times, node=b"n1"))
    while (computed := engine.compute(levels, 2)).rows:
        leaving += left(computed)
    assert leaving == [b"000", *(name for name, _ in times)]


def test_limit_takes_the_oldest_and_the_rest_follows_without_input() -> None:
    engine = small_engine(layers=1)
    names = [(b"%02d" % k, float(k)) for k in range(20)]
    for entry in reversed(names):
        engine.append(0, rows(entry, node=b"n-" + entry[0]))
    leaving = []
    while engine.pending():
        computed = engine.compute(INFINITY, 3)
        assert len(computed.embeddings) <= 3
        leaving += left(computed)
    assert leaving == [name for name, _ in names]


def test_limit_bounds_each_layer() -> None:
    engine = small_engine()
    engine.append(0, rows(*[(b"%02d" % k, float(k)) for k in range(20)]))
    computed = engine.compute(INFINITY, 4)
    assert computed.peer_embeddings[0].interaction.tolist() == [b"00", b"01", b"02", b"03"]


def test_message_goes_to_the_peers_row_of_the_other_side() -> None:
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0), side=1))
    message = engine.compute(INFINITY, 4).peer_embeddings[0]
    assert (message.node[0], message.interaction[0], message.side[0]) == (b"peer-a", b"a", 0)
    assert (message.layer, message.time[0], message.version[0]) == (1, 1.0, 7)


def test_message_version_is_the_lowest_of_weights_and_inputs() -> None:
    engine = small_engine(layers=3)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0)))
    engine.fill(0, peer_embeddings((b"a", 1.0), version=5))
    engine.fill(0, peer_embeddings((b"b", 2.0), version=9))
    versions = {
        m.layer: dict(zip(m.interaction.tolist(), m.version.tolist(), strict=True))
        for m in engine.compute(INFINITY, 9).peer_embeddings
    }
    assert versions[1] == {b"a": 7, b"b": 7, b"c": 7}
    # b sees a's peer embedding of version 5, c sees both.
    assert versions[2] == {b"a": 7, b"b": 5, b"c": 5}


def test_max_wait_computes_with_what_is_there_masked_and_counted() -> None:
    engine = small_engine(max_wait_s=60.0)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0)), now=100.0)
    engine.fill(0, peer_embeddings((b"b", 2.0)), now=100.0)
    early = engine.compute(INFINITY, 10, now=160.0)
    assert (left(early), early.forced) == ([b"a"], 0)
    late = engine.compute(INFINITY, 10, now=160.5)
    assert (left(late), late.forced) == ([b"b", b"c"], 2)
    # Masked: b is what it would be without any past, c what it would be with b alone. (Their own h^(1) asks, and one
    # neighbour answers whatever is asked.)
    alone = small_engine()
    alone.append(0, rows((b"b", 2.0), (b"c", 3.0)))
    alone.fill(0, peer_embeddings((b"b", 2.0)))
    expected = alone.compute(INFINITY, 10).embeddings
    np.testing.assert_allclose(late.embeddings.embedding, expected.embedding, atol=1e-6)


def test_max_wait_off_waits_for_ever() -> None:
    engine = small_engine()
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)), now=0.0)
    engine.compute(INFINITY, 10, now=0.0)
    assert left(engine.compute(INFINITY, 10, now=1e9)) == []


def test_max_wait_does_not_force_before_the_watermark() -> None:
    engine = small_engine(max_wait_s=60.0)
    engine.append(0, rows((b"a", 1.0)), now=0.0)
    assert left(engine.compute({0: 0.5}, 10, now=1e6)) == []


def test_backlog_suspends_max_wait() -> None:
    engine = small_engine(max_wait_s=60.0)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)), now=0.0)
    for now in (0.0, 50.0, 100.0):
        engine.compute(INFINITY, 10, now=now, backlog=True)
    # Time with a backlog does not count, not even once it is over.
    assert engine.compute(INFINITY, 10, now=159.0).forced == 0
    assert engine.compute(INFINITY, 10, now=161.0).forced == 1


def test_late_row_gets_its_embedding_and_revises_nothing() -> None:
    engine = small_engine(layers=1)
    engine.append(0, rows((b"a", 1.0), (b"c", 3.0)))
    assert left(engine.compute({0: 3.1}, 10)) == [b"a", b"c"]
    engine.append(0, rows((b"b", 2.0)))
    computed = engine.compute({0: 3.1}, 10)
    assert left(computed) == [b"b"]
    assert computed.embeddings.late.tolist() == [True]
    np.testing.assert_array_equal(computed.embeddings.embedding, engine.embed(0, np.array([NODE]), np.array([2.0])))
    found = kept_rows(engine, 0, NODE)
    assert found.interaction.tolist() == [b"a", b"b", b"c"]
    assert found.late.tolist() == [False, True, False]


@pytest.mark.parametrize("peer_embedding_first", [False, True])
def test_row_no_longer_waits_for_what_a_late_row_displaced(peer_embedding_first: bool) -> None:
    # K = 1: c waits for b's peer embedding of layer 0; a late row between them takes b's place.
    engine = small_engine(neighbours=1, node_features=1)
    engine.append(0, rows((b"b", 2.0), (b"c", 3.0)))
    engine.compute(INFINITY, 10)
    assert engine.compute(INFINITY, 10).peer_embeddings == []
    late, peer_embedding = rows((b"bb", 2.5)), peer_embeddings((b"bb", 2.5))
    peer_embedding = dataclasses.replace(peer_embedding, vectors=np.ones((1, 1), np.float32), layer=0)
    if peer_embedding_first:
        engine.fill(0, peer_embedding)
        assert engine.compute(INFINITY, 10).peer_embeddings == []
        engine.append(0, late)
    else:
        engine.append(0, late)
        engine.fill(0, peer_embedding)
    messages = {message.layer: message.interaction.tolist() for message in engine.compute(INFINITY, 10).peer_embeddings}
    assert messages == {0: [b"bb"], 1: [b"c"]}


def test_late_row_older_than_all_that_is_kept_has_finite_activity() -> None:
    engine = small_engine(layers=1, activity=True, candidates=5)
    engine.append(0, rows(*[(b"%02d" % k, 10.0 + k) for k in range(30)]))
    while (computed := engine.compute(INFINITY, 100)).rows:
        for message in computed.peer_embeddings:
            own = rows(*zip(message.interaction.tolist(), message.time.tolist(), strict=True))
            engine.fill(0, dataclasses.replace(message, node=own.node, peer=own.peer, side=own.side))
    engine.append(0, rows((b"late", 20.5)))
    assert np.isfinite(engine.compute(INFINITY, 10).embeddings.embedding).all()


def test_features_hold_from_when_they_come() -> None:
    engine, store = small_engine(layers=1, node_features=2), MemoryStore()
    engine.append(0, rows((b"a", 1.0)))
    engine.set_features(0, np.array([NODE]), np.array([[1.0, 2.0]], np.float32))
    message = engine.compute(INFINITY, 10).peer_embeddings[0]
    assert (message.layer, message.vectors.tolist()) == (0, [[1.0, 2.0]])
    commit(engine, store)
    reopen(engine, store)
    engine.append(0, rows((b"b", 2.0)))
    assert engine.compute(INFINITY, 10).peer_embeddings[0].vectors.tolist() == [[1.0, 2.0]]
    engine.set_features(0, np.array([NODE]), np.array([[3.0, 4.0]], np.float32))
    engine.append(0, rows((b"c", 3.0)))
    assert engine.compute(INFINITY, 10).peer_embeddings[0].vectors.tolist() == [[3.0, 4.0]]


@given(draw=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_uniform_draws_as_training_does_whatever_was_forgotten(draw: random.Random) -> None:
    """Rows come in any order; only the newest are kept, and times with more rows than that are cut."""
    times = sorted(float(draw.randint(0, 8)) for _ in range(draw.randint(1, 40)))
    past = [(b"%02d" % k, time) for k, time in enumerate(times)]
    engine, store = small_engine(layers=1, neighbours=3, candidates=8, sampling="uniform"), MemoryStore()
    engine.append(0, rows(*draw.sample(past, len(past))))
    engine.compute(INFINITY, 100)
    commit(engine, store)
    reopen(engine, store)
    place = int(engine._arena.nodes_of(0, np.array([NODE]), 0.0)[0])
    assert engine._arena.t.nodes["count"][place] <= 16
    history = TemporalAdjacency(Interactions.in_time_order([0] * len(past), range(1, len(past) + 1), times))
    ranks, slots = np.empty(3, np.uint64), np.empty(3, np.int32)
    for time in (times[-1], times[-1] + 0.25, times[-1] + 1e6):
        count = selection.sample(engine._arena.t, place, time, 8, True, ranks, slots)
        expected = uniform(8)(history, np.zeros(1, np.int64), np.array([time]), 3)
        found = sorted(int(name) for name in engine._arena.interactions_at(slots[:count]))
        assert found == expected.event[expected.mask].tolist()


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=20, deadline=None)
def test_gathering_path_of_a_gpu_equals_the_fused_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    past = [(b"%02d" % k, float(time)) for k, time in enumerate(np.sort(random.integers(0, 9, 9)))]
    results = []
    for fused in (True, False):
        engine = small_engine()
        engine._layers.forward = Forward(engine._layers.forward.model, engine._arena, "cpu", fused=fused)
        engine.append(0, rows(*past))
        engine.fill(0, peer_embeddings(*past))
        results.append(engine.compute(INFINITY, 99).embeddings)
    assert results[0].interaction.tolist() == results[1].interaction.tolist()
    np.testing.assert_allclose(results[0].embedding, results[1].embedding, atol=1e-4, rtol=1e-5)


def test_policy_without_an_entry_for_each_head_is_refused() -> None:
    from stream_tgat.engine import AlertPolicy

    with pytest.raises(ValueError, match="threshold and a cooldown"):
        small_engine(head_names=("ban",), alerts=AlertPolicy((), ()))


@given(draw=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_rows_leave_when_their_own_watermark_has_passed_whatever_else_is_pending(draw: random.Random) -> None:
    # Three partitions with watermarks of their own, one of which is dropped and opened again on the way.
    engine = small_engine(layers=1, neighbours=2, candidates=3)
    engine.open(1, MemoryStore(), now=0.0)
    engine.open(2, MemoryStore(), now=0.0)
    waiting: dict[int, set[float]] = {0: set(), 1: set(), 2: set()}
    watermarks = dict.fromkeys(waiting, -np.inf)
    for step in range(draw.randint(1, 25)):
        partition = draw.randrange(3)
        behind = max(watermarks[partition], 0.0)
        times = sorted({behind + draw.randint(1, 100) + step / 100 for _ in range(draw.randint(0, 6))})
        entries = [(b"%d/%d" % (step, k), time) for k, time in enumerate(times)]
        engine.append(partition, rows(*entries, node=b"n%d" % draw.randrange(4) + b"/%d" % partition))
        waiting[partition] |= set(times)
        moved = draw.randrange(3)
        watermarks[moved] = max(watermarks[moved], float(draw.randint(0, 150)))
        if draw.random() < 0.1:
            engine.drop(2)
            engine.open(2, MemoryStore(), now=0.0)
            waiting[2] = set()
        asked = {number: watermarks[number] for number in waiting if draw.random() < 0.8}
        left = engine.compute(asked, 1000).embeddings
        for number, times_left in waiting.items():
            due = {time for time in times_left if number in asked and time < watermarks[number]}
            assert set(left.time[left.partition == number].tolist()) == due
            times_left.difference_update(due)
            assert engine.waiting(number, watermarks[number]) == sum(t > watermarks[number] for t in times_left)
    assert engine.pending() == sum(map(len, waiting.values()))
