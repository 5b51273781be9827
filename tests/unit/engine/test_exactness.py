"""Any order of what order leaves open, any crash: the engine gives what the recursion over the whole past gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_tgat.engine import Engine, HalfEdges, single_pass
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from tests.kept_rows import kept_rows
from tests.unit.engine.cluster import Cluster
from tests.unit.engine.oracle import Key, Oracle, keys_of
from tests.unit.engine.streams import awkward_stream, sorted_by_time, with_repeats
from tests.unit.nn.models import random_model

SHAPES: dict[str, dict[str, Any]] = {
    "one layer": {"layers": 1, "edge_features": 3},
    "two layers": {"layers": 2, "edge_features": 3},
    "three layers": {"layers": 3, "edge_features": 2},
    "node features": {"layers": 2, "edge_features": 2, "node_features": 3},
    "activity": {"layers": 2, "edge_features": 0, "activity": True},
    "dyglib": {"layers": 2, "edge_features": 2, "node_features": 2, "preset": "dyglib"},
    "reference": {"layers": 2, "edge_features": 2, "activity": True, "preset": "reference"},
    "uniform": {"layers": 2, "edge_features": 2, "sampling": "uniform"},
}

#: Shapes whose streams take seconds each: `make test-fast` leaves them out, and has all shapes in single passes.
LONG = ("three layers", "node features", "dyglib", "reference")


def model_of(shape: str) -> Model:
    """Weights small enough that embeddings stay near 1, where 1e-5 is 100 roundings of a float32."""
    model = random_model(torch.float32, **SHAPES[shape])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "omega" not in name and "norm" not in name:
                parameter.mul_(0.5)
    return model


def features_of(model: Model, half_edges: HalfEdges) -> dict[bytes, np.ndarray]:
    nodes = sorted(set(half_edges.node.tolist()))
    values = np.random.default_rng(5).standard_normal((len(nodes), model.config.node_features)).astype(np.float32)
    return dict(zip(nodes, values.astype(np.float64), strict=True))


def assert_close(actual: np.ndarray, expected: np.ndarray, message: str) -> None:
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * scale, err_msg=message)


def check_embeddings(oracle: Oracle, emitted: dict[Key, np.ndarray]) -> None:
    rows = [row for rows in oracle.rows.values() for row in rows]
    assert set(emitted) == {row.key for row in rows}
    for row in rows:
        expected = oracle.state(oracle.model.config.layers, row.node, row.time)
        actual = emitted[row.key]
        assert_close(actual, expected, str(row))


def check_neighbourhoods(engine: Engine, oracle: Oracle, half_edges: HalfEdges, partition_of: Any) -> None:
    for node in oracle.rows:
        found, expected = kept_rows(engine, partition_of(node), node), oracle.kept(node)
        assert list(zip(found.time, found.interaction, found.side, found.peer, strict=True)) == [
            (row.time, row.interaction, row.side, row.peer) for row in expected
        ]
        assert found.edge.tobytes() == half_edges.edge[[row.index for row in expected]].tobytes()
        assert found.degree == len(oracle.rows[node])
        assert found.done.all()
        for layer, width in enumerate(oracle.model.state_widths):
            if width:
                assert (found.versions[:, layer] == 7).all()
                states = np.array([oracle.state(layer, row.peer, row.time) for row in expected])
                assert_close(found.peer_embeddings[layer], states.reshape(-1, width), str(node))


@pytest.mark.parametrize("shape", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in SHAPES])
@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=12, deadline=None)
def test_stream_any_order_and_crashes_equals_recursion(shape: str, seed: int) -> None:
    draw = random.Random(seed)
    model = model_of(shape)
    half_edges = awkward_stream(draw, draw.randint(5, 45), model.config.edge_features, ids=draw.choice([None, 4]))
    features = features_of(model, half_edges)
    # A cache of nothing: whatever may be evicted is.
    engine = Engine(model, 7, id_bytes=16, cache_bytes=draw.choice([0, 1 << 20]))
    cluster = Cluster(engine, draw.randint(1, 4), draw)
    if model.config.node_features:
        set_features(cluster, features)
    cluster.feed(half_edges)
    cluster.run()

    oracle = Oracle(model, half_edges, features)
    check_embeddings(oracle, cluster.emitted)
    assert cluster.largest_difference < 1e-5 * max(np.abs(vector).max() for vector in cluster.emitted.values())
    for order in cluster.first_order.values():
        assert order == sorted(order)
    check_neighbourhoods(engine, oracle, half_edges, cluster.partition_of)
    for number in range(len(cluster.partitions)):
        assert not list(cluster.partitions[number].store.scan(b"p"))
        assert engine.take_changes(number) == []
        engine.drop(number)
        engine.open(number, cluster.partitions[number].store)
    assert engine.pending() == 0
    check_neighbourhoods(engine, oracle, half_edges, cluster.partition_of)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=25, deadline=None)
def test_interaction_is_its_id_user_item_and_time_whatever_the_order_and_crashes(seed: int) -> None:
    draw = random.Random(seed)
    # All rows are kept, so that a repeat is known however late it comes.
    model = random_model(torch.float32, layers=2, edge_features=2, activity=True, candidates=64)
    half_edges = awkward_stream(draw, draw.randint(5, 30), 2, nodes=3, span=4, ids=3)
    cluster = Cluster(Engine(model, 7, id_bytes=16, cache_bytes=draw.choice([0, 1 << 20])), draw.randint(1, 4), draw)
    cluster.feed(with_repeats(draw, half_edges, draw.randint(0, 10)))
    cluster.run()

    oracle = Oracle(model, half_edges)
    assert len(cluster.emitted) == len(half_edges)
    check_embeddings(oracle, cluster.emitted)
    for order in cluster.first_order.values():
        assert order == sorted(order)
    check_neighbourhoods(cluster.engine, oracle, half_edges, cluster.partition_of)


def set_features(cluster: Cluster, features: dict[bytes, np.ndarray]) -> None:
    for number in range(len(cluster.partitions)):
        mine = [node for node in features if cluster.partition_of(node) == number]
        if mine:
            vectors = np.array([features[node] for node in mine], np.float32)
            cluster.engine.set_features(number, np.array(mine), vectors)
            cluster.engine.save(number)


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 1 << 30), batch=st.integers(1, 60))
@settings(max_examples=6, deadline=None)
def test_single_pass_any_batch_equals_recursion(shape: str, seed: int, batch: int) -> None:
    model = model_of(shape)
    half_edges = sorted_by_time(awkward_stream(random.Random(seed), 60, model.config.edge_features, ids=7))
    features = features_of(model, half_edges)
    engine, store = Engine(model, 7, id_bytes=16), MemoryStore()
    engine.open(1, store)
    if model.config.node_features:
        engine.set_features(1, np.array(list(features)), np.array(list(features.values()), np.float32))
        engine.save(1)
    engine.drop(1)
    embeddings = single_pass(engine, half_edges, batch, partition=1, store=store)
    oracle = Oracle(model, half_edges, features)
    check_embeddings(oracle, dict(zip(keys_of(embeddings), embeddings.embedding, strict=True)))
    check_neighbourhoods(engine, oracle, half_edges, lambda node: 1)


def test_batch_splits_agree_to_rounding() -> None:
    model = model_of("activity")
    half_edges = sorted_by_time(awkward_stream(random.Random(3), 400, 0, span=300))
    results = []
    for batch in (1, 17, 400):
        embeddings = single_pass(Engine(model, 7, id_bytes=16), half_edges, batch)
        order = np.lexsort((embeddings.side, embeddings.interaction))
        results.append(embeddings.embedding[order])
    scale = np.abs(results[0]).max()
    assert np.abs(results[0] - results[1]).max() < 1e-6 * scale
    assert np.abs(results[0] - results[2]).max() < 1e-6 * scale


def test_basket_that_a_batch_cuts_has_one_degree() -> None:
    # More rows at one time than are kept, and activity features that count what came before.
    model = model_of("activity")
    rng = random.Random(5)
    half_edges = sorted_by_time(awkward_stream(rng, 120, 0, span=4))
    oracle = Oracle(model, half_edges, features_of(model, half_edges))
    for batch in (1, 7, 120):
        embeddings = single_pass(Engine(model, 7, id_bytes=16), half_edges, batch)
        check_embeddings(oracle, dict(zip(keys_of(embeddings), embeddings.embedding, strict=True)))
