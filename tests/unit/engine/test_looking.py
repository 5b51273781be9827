"""A look at any node at any time equals the recursion over the whole past, as far as its rows are kept."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from stream_tgat.engine import Engine, HalfEdges, single_pass
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.pairs import pair_features
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from tests.unit.engine.oracle import Oracle
from tests.unit.engine.small import peer_embeddings, rows, small_engine
from tests.unit.engine.streams import awkward_stream, sorted_by_time
from tests.unit.engine.test_exactness import SHAPES, assert_close, features_of, model_of
from tests.unit.nn.models import random_model

DECAYS = (3.0, 40.0)


def stream(model: Model, *, count: int = 80, span: int = 30) -> HalfEdges:
    return sorted_by_time(awkward_stream(random.Random(4), count, model.config.edge_features, span=span, ids=7))


def passed(model: Model, half_edges: HalfEdges) -> Engine:
    """An engine that has seen all of it."""
    engine = Engine(model, 7, id_bytes=16)
    single_pass(engine, half_edges, 20)
    return engine


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "node_features" not in SHAPES[shape]])
def test_look_after_the_stream_equals_the_recursion(shape: str) -> None:
    model = model_of(shape)
    half_edges = stream(model)
    engine, oracle = passed(model, half_edges), Oracle(model, half_edges)
    nodes = [*oracle.rows, b"never"]
    times = np.array([30.0 + 0.37 * k for k in range(len(nodes))]) + 1.0
    look = engine.look(0, np.array(nodes), times)
    for at, node in enumerate(nodes):
        past = oracle.past(node, times[at])
        assert_close(look.embedding[at], oracle.state(model.config.layers, node, times[at]), str(node))
        assert look.degree[at] == len(past)
        assert look.last[at] == past[-1].time if past else np.isnan(look.last[at])
    assert not look.is_cut.any()
    assert not look.awaited.any()
    assert engine.take_changes(0) == []


def test_now_is_just_after_the_newest_row_if_that_is_later() -> None:
    model = model_of("two layers")
    half_edges = stream(model)
    engine, oracle = passed(model, half_edges), Oracle(model, half_edges)
    node = max(oracle.rows, key=lambda each: oracle.rows[each][-1].time)
    newest = oracle.rows[node][-1].time
    nodes, now = np.array([node, node, b"never"]), np.array([newest - 5, newest + 5, 8.0])
    look = engine.look(0, nodes, np.full(3, np.nan), now)
    assert look.time.tolist() == [np.nextafter(newest, np.inf), newest + 5, 8.0]
    assert look.degree.tolist() == [len(oracle.rows[node])] * 2 + [0]


def test_look_back_beyond_what_is_kept_says_so() -> None:
    model = random_model(torch.float32, layers=1, edge_features=1, neighbours=2, candidates=3)
    engine = small_engine(model=model)
    engine.append(0, rows(*[(b"%02d" % k, float(k)) for k in range(10)]))
    engine.compute({0: np.inf}, 99)
    # Kept are the newest, and the three before it.
    look = engine.look(0, np.array([b"n0"] * 3), np.array([10.0, 7.5, 6.5]))
    assert look.is_cut.tolist() == [False, False, True]
    assert look.degree.tolist() == [10, 8, 7]


def test_neighbours_without_their_peer_embeddings_are_counted_as_awaited() -> None:
    engine = small_engine(layers=2)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0), (b"c", 3.0)))
    look = engine.look(0, np.array([b"n0", b"n1"]), np.array([9.0, 9.0]))
    assert look.awaited.tolist() == [2, 0]
    engine.fill(0, peer_embeddings((b"c", 3.0)))
    assert engine.look(0, np.array([b"n0"]), np.array([9.0])).awaited.tolist() == [1]


def test_past_tells_rows_with_the_attention_that_they_get() -> None:
    model = random_model(torch.float32, layers=1, edge_features=1, neighbours=2, candidates=4)
    engine = small_engine(model=model)
    engine.append(0, rows(*[(b"%d" % k, float(k)) for k in range(3)]))
    engine.compute({0: np.inf}, 99)
    engine.append(0, rows((b"late", 0.5)))
    look = engine.look(0, np.array([b"n0", b"none"]), np.array([2.5, 2.5]))
    past = look.past(0, 10)
    assert past.interaction.tolist() == [b"0", b"late", b"1", b"2"]
    assert past.late.tolist() == [False, True, False, False]
    assert_allclose(past.edge[:, 0], np.sin(past.time), rtol=1e-6)
    # Two are looked at, and share all of the attention.
    assert past.weight[:2].tolist() == [0.0, 0.0]
    assert (past.weight[2:] > 0).all()
    assert_allclose(past.weight.sum(), 1.0, rtol=1e-5)
    assert look.past(0, 1).interaction.tolist() == [b"2"]
    assert len(look.past(1, 10).interaction) == 0
    earlier = engine.look(0, np.array([b"n0"]), np.array([1.0])).past(0, 10)
    assert earlier.interaction.tolist() == [b"0", b"late"]


def test_meetings_are_those_of_training() -> None:
    model = model_of("two layers")
    half_edges = stream(model, count=120, span=60)
    engine = passed(model, half_edges)
    names = sorted({*half_edges.node.tolist(), b"never"})
    number = {name: at for at, name in enumerate(names)}
    # What happens at one time has an order too, here as there.
    order = np.lexsort((half_edges.peer[::2], half_edges.node[::2], half_edges.interaction[::2], half_edges.time[::2]))
    sources, destinations, times = (part[::2][order] for part in (half_edges.node, half_edges.peer, half_edges.time))
    history = TemporalAdjacency(
        Interactions(
            np.array([number[each] for each in sources.tolist()]),
            np.array([number[each] for each in destinations.tolist()]),
            times,
            half_edges.edge[::2][order],
        )
    )
    pairs = [(a, b) for a in names for b in names]
    now, kept = 70.0, model.config.candidates
    expected = pair_features(
        history,
        np.array([number[a] for a, _ in pairs]),
        np.array([[number[b]] for _, b in pairs]),
        np.full(len(pairs), now),
        kept,
    )[:, 0]
    look = engine.look(0, np.array(names), np.full(len(names), now))
    own = look.meetings(np.array([number[a] for a, _ in pairs]), np.array([b for _, b in pairs]))
    theirs = look.meetings(np.array([number[b] for _, b in pairs]), np.array([a for a, _ in pairs]))
    assert_allclose(np.concatenate([own, theirs], 1), expected, rtol=1e-6)


def test_predictions_are_what_the_heads_would_say_of_the_next_interaction() -> None:
    model = random_model(torch.float32, layers=1, edge_features=1, head_names=("ban",), decay_s=DECAYS, candidates=3)
    events, now = [(b"%02d" % k, 2.0 + 1.5 * k) for k in range(12)], 30.0
    engine = small_engine(model=model)
    engine.append(0, rows(*events))
    engine.compute({0: np.inf}, 99)
    look = engine.look(0, np.array([b"n1", b"n0"]), np.array([now, now]))
    said = look.predictions(np.array([1]), np.sin([[now]], dtype=np.float32))
    # What the stream says of it when it happens.
    engine.append(0, rows((b"next", now)))
    assert_allclose(said, engine.compute({0: np.inf}, 99).embeddings.predictions, atol=1e-6)


def test_alert_states_are_of_the_newest_embedded_row() -> None:
    model = random_model(torch.float32, layers=1, edge_features=1, head_names=("ban",))
    engine = small_engine(model=model)
    engine.append(0, rows((b"a", 1.0), (b"b", 2.0)))
    said = engine.compute({0: 1.5}, 99).embeddings.predictions[0, 0]
    alerts = engine.look(0, np.array([b"n0", b"n1"]), np.array([9.0, 9.0])).alerts
    assert alerts.probability[0, 0] == pytest.approx(said)
    assert alerts.at[:, 0].tolist() == [1.0, -np.inf]
    assert np.isnan(alerts.probability[1, 0])


def test_features_of_nodes_are_in_it() -> None:
    model = model_of("node features")
    half_edges = stream(model)
    features = features_of(model, half_edges)
    engine = Engine(model, 7, id_bytes=16)
    engine.open(0, store := MemoryStore())
    engine.set_features(0, np.array(list(features)), np.array(list(features.values()), np.float32))
    engine.save(0)
    engine.drop(0)
    single_pass(engine, half_edges, 20, store=store)
    oracle = Oracle(model, half_edges, features)
    nodes = list(oracle.rows)
    look = engine.look(0, np.array(nodes), np.full(len(nodes), 44.0))
    for at, node in enumerate(nodes):
        assert_close(look.embedding[at], oracle.state(2, node, 44.0), str(node))
