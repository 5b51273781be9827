"""Other weights take over: rows stay, what follows is theirs, and what rests on older weights is counted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from stream_tgat.engine import AlertPolicy, Computed, Engine, FinalEmbeddings, single_pass
from stream_tgat.errors import ModelError
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from tests.unit.engine.small import INFINITY, commit, left, peer_embeddings, reopen, rows, small_engine, small_model
from tests.unit.engine.streams import awkward_stream, sorted_by_time

OLD, NEW = 7, 9


def model_of(seed: int, **config: object) -> Model:
    return small_model(seed=seed, **config)


def engine_of(model: Model, version: int) -> Engine:
    return Engine(model, version, id_bytes=16, cache_bytes=1 << 20)


def assert_same(one: FinalEmbeddings, other: FinalEmbeddings) -> None:
    assert one.interaction.tolist() == other.interaction.tolist()
    assert one.version.tolist() == other.version.tolist()
    np.testing.assert_array_equal(one.embedding, other.embedding)
    np.testing.assert_array_equal(one.predictions, other.predictions)


@pytest.mark.parametrize("config", [{}, {"layers": 3, "node_features": 2}, {"activity": True, "candidates": 5}])
def test_swap_without_past_rows_is_a_fresh_engine_of_the_new_model(config: dict[str, object]) -> None:
    old, new = model_of(1, head_names=("ban",), **config), model_of(2, head_names=("ban",), **config)
    stream = sorted_by_time(awkward_stream(random.Random(3), 60, 1))
    swapped = engine_of(old, OLD)
    swapped.swap(new, NEW)
    expected = single_pass(engine_of(new, NEW), stream, 5)
    assert_same(single_pass(swapped, stream, 5), expected)
    # The two models do differ.
    assert np.abs(single_pass(engine_of(old, OLD), stream, 5).embedding - expected.embedding).max() > 0.01


def test_rows_on_older_peer_embeddings_use_them_as_they_are_and_are_counted() -> None:
    engine = small_engine(model=model_of(1), version=OLD)
    engine.append(0, rows((b"a", 1.0)))
    engine.fill(0, peer_embeddings((b"a", 1.0), version=OLD))
    assert engine.compute(INFINITY, 9).stale == 0
    engine.swap(model_of(2), NEW)
    engine.append(0, rows((b"b", 2.0), (b"c", 3.0)))
    engine.fill(0, peer_embeddings((b"b", 2.0), version=NEW))
    computed = engine.compute(INFINITY, 9)
    # Layer 1 reads no peer embedding that weights have made. Of layer 2, b reads a's peer embedding; c reads a's and
    # b's.
    assert (left(computed), computed.stale) == ([b"b", b"c"], 2)
    # The output names the model that serves.
    assert computed.embeddings.version.tolist() == [NEW, NEW]
    # With K = 2, d reads b and c only: nothing old is left.
    engine.append(0, rows((b"d", 4.0)))
    engine.fill(0, peer_embeddings((b"c", 3.0), version=NEW))
    computed = engine.compute(INFINITY, 9)
    assert (left(computed), computed.stale) == ([b"d"], 0)


def test_older_peer_embedding_gives_the_embedding_that_any_peer_embedding_with_these_numbers_gives() -> None:
    new = model_of(2)
    swapped, fresh = small_engine(model=model_of(1), version=OLD), small_engine(model=new, version=NEW)
    swapped.append(0, rows((b"a", 1.0)))
    swapped.fill(0, peer_embeddings((b"a", 1.0), version=OLD, value=0.25))
    swapped.swap(new, NEW)
    fresh.append(0, rows((b"a", 1.0)))
    fresh.fill(0, peer_embeddings((b"a", 1.0), version=NEW, value=0.25))
    for engine in (swapped, fresh):
        engine.append(0, rows((b"b", 2.0)))
    assert_same(*(engine.compute(INFINITY, 9).embeddings for engine in (swapped, fresh)))


def test_state_without_weights_does_not_age() -> None:
    """h^(0) is features and activity: whatever rests on an old peer embedding of it is as good as new."""
    engine = small_engine(model=model_of(1, node_features=1), version=OLD)
    engine.append(0, rows((b"a", 1.0)))
    layer0 = replace(peer_embeddings((b"a", 1.0), version=OLD), vectors=np.ones((1, 1), np.float32), layer=0)
    engine.fill(0, layer0)
    engine.compute(INFINITY, 9)
    engine.swap(model_of(2, node_features=1), NEW)
    engine.append(0, rows((b"b", 2.0)))
    computed = engine.compute(INFINITY, 9)
    assert {m.layer: m.version.tolist() for m in computed.peer_embeddings} == {0: [NEW], 1: [NEW]}
    assert computed.stale == 0


def test_row_half_computed_by_the_old_model_is_computed_again_by_the_new_one() -> None:
    """b has h^(1) of the old weights when the new ones take over; its peer gets it anew, and replaces what it has."""
    engine, new = small_engine(model=model_of(1, layers=3), version=OLD), model_of(2, layers=3)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    before = versions_by_layer(engine.compute(INFINITY, 9))
    assert before == {1: {b"a": OLD, b"b": OLD}, 2: {b"a": OLD}}
    engine.swap(new, NEW)
    engine.fill(0, peer_embeddings((b"a", 1.0), version=NEW))
    computed = engine.compute(INFINITY, 9)
    assert versions_by_layer(computed) == {1: {b"b": NEW}, 2: {b"b": NEW}}
    assert computed.stale == 0
    fresh = small_engine(model=new, version=NEW)
    fresh.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    fresh.fill(0, peer_embeddings((b"a", 1.0), version=NEW))
    wanted = {m.layer: m.vectors[-1] for m in fresh.compute(INFINITY, 9).peer_embeddings}
    for peer_embedding in computed.peer_embeddings:
        np.testing.assert_allclose(peer_embedding.vectors[-1], wanted[peer_embedding.layer], atol=1e-6)


def test_row_that_is_computed_again_after_a_crash_is_of_the_new_model_alone() -> None:
    """Own lower layers of a pending row are in memory only, so the second time all of them are the new weights'."""
    store, new = MemoryStore(), model_of(2, layers=3)
    engine = small_engine(model=model_of(1, layers=3), version=OLD, store=store)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    engine.compute(INFINITY, 9)
    commit(engine, store)
    engine.swap(new, NEW)
    reopen(engine, store)
    engine.fill(0, peer_embeddings((b"a", 1.0), version=NEW))
    again = engine.compute(INFINITY, 9)
    assert versions_by_layer(again) == {1: {b"b": NEW}, 2: {b"b": NEW}}
    assert again.stale == 0


def test_thresholds_follow_the_new_model() -> None:
    model = model_of(1, layers=1, head_names=("ban",))
    engine = small_engine(model=model, version=OLD, alerts=AlertPolicy((2.0,), (0.0,)))
    engine.append(0, rows((b"a", 1.0)))
    assert engine.compute(INFINITY, 9).alerts == []
    engine.swap(model, NEW, AlertPolicy((0.0,), (1000.0,)))
    engine.append(0, rows((b"b", 2.0), node=b"n1"))
    (alert,) = engine.compute(INFINITY, 9).alerts
    assert (alert.interaction, alert.threshold, alert.version) == (b"b", 0.0, NEW)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"hidden": 4}, "hidden"),
        ({"layers": 1}, "layers"),
        ({"edge_features": 2}, "edge_features"),
        ({"head_names": ("other",)}, "head_names"),
        ({"neighbours": 3}, "neighbours"),
    ],
)
def test_model_that_the_rows_do_not_fit_changes_nothing(config: dict[str, object], named: str) -> None:
    assert_refused(model_of(2, **config), NEW, named)


@pytest.mark.parametrize("version", [OLD, OLD - 1])
def test_version_that_is_not_newer_changes_nothing(version: int) -> None:
    assert_refused(model_of(2), version, "versions only go up")


def assert_refused(model: Model, version: int, message: str) -> None:
    engine, untouched = small_engine(model=model_of(1), version=OLD), small_engine(model=model_of(1), version=OLD)
    with pytest.raises(ModelError, match=message):
        engine.swap(model, version)
    for each in (engine, untouched):
        each.append(0, rows((b"a", 1.0)))
    assert_same(*(each.compute(INFINITY, 9).embeddings for each in (engine, untouched)))


def versions_by_layer(computed: Computed) -> dict[int, dict[bytes, int]]:
    return {
        m.layer: dict(zip(m.interaction.tolist(), m.version.tolist(), strict=True)) for m in computed.peer_embeddings
    }
