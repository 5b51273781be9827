"""A release that was trained here says in the stream what it says in evaluation: to 1e-5, whatever the order.

The same records go both ways: into the arrays that training reads, and half-edge by half-edge through the engine.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stream_tgat.datasets.stream import StreamRecord, record
from stream_tgat.engine import Engine, HalfEdges, both_halves
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.heads import embed_events
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.pipeline import head_settings, link_settings, train
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.training.scoring import TemporalGraph
from tests.logs import build_log
from tests.unit.engine.cluster import Cluster
from tests.unit.engine.oracle import keys_of

TOLERANCE = 1e-5
NEIGHBOURS, CANDIDATES = 4, 6
SHAPES: dict[str, dict[str, Any]] = {
    "all of the paper": {"activity": True, "pair_features": True},
    "one kind of nodes": {"activity": True, "bipartite": False},
    "one layer": {"activity": True, "layers": 1},
    "three layers": {"layers": 3},
    "neighbours are all candidates": {"activity": True, "neighbours": CANDIDATES},
    "dyglib": {"preset": "dyglib", "activity": True},
    "reference": {"preset": "reference"},
    "taught by answers": {"activity": True, "fine_tuning_epochs": 2},
    "decayed sums": {"decay_days": [0.5, 3.0], "head_members": 2},
    "uniform": {"activity": True, "sampling": "uniform", "candidates": 8},
}


def topology_of(shape: str) -> Topology:
    options = dict(SHAPES[shape])
    bipartite = options.pop("bipartite", True)
    fine_tuning_epochs = options.pop("fine_tuning_epochs", 0)
    model = {"hidden": 8, "time_dim": 4, "neighbours": NEIGHBOURS, "candidates": CANDIDATES, **options}
    return Topology.model_validate(
        {
            "name": "small",
            "graph": {"node_features": 3, "bipartite": bipartite, "max_id_bytes": 32},
            "model": model,
            "features": [{"kind": "number", "name": "amount"}, {"kind": "flag", "name": "gift"}],
            "heads": [{"name": "likes"}, {"name": "leaves"}],
            "training": {
                "epochs": 2,
                "batch_size": 40,
                "learning_rate": 0.01,
                "fine_tuning_epochs": fine_tuning_epochs,
                "head_epochs": 3,
                "test_share": 0.0,
            },
        }
    )


def stream_of(draw: random.Random, topology: Topology, count: int = 100) -> list[StreamRecord]:
    """A hub, strangers, baskets of more rows at one time than are kept; ids in no order, and used again."""
    items = "item" if topology.graph.bipartite else "user"
    records = []
    for name in ("user-0", f"{items}-1", f"{items}-2"):
        value = {"node": name, "kind": name[:4], "features": [draw.gauss(0, 1) for _ in range(3)]}
        records.append(record("nodes", name, value, 0.0))
    ids = draw.sample(range(10_000), count)
    time = 1.6e9
    for number, name in enumerate(ids):
        # Days apart, seconds apart, and often at one time: ten in a row now and then.
        time += 0.0 if number % 40 < 10 else draw.choice([0.0, 0.5, 1.0, 86_400.0])
        user = 0 if draw.random() < 0.5 else draw.randint(1, 5)
        item = number + 100 if draw.random() < 0.1 else draw.randint(0, 5)
        value = {
            "id": f"x{name % 5}",
            "user": f"user-{user}",
            "item": f"{items}-{item}",
            "timestamp": time,
            "amount": draw.gauss(0, 1),
            "gift": draw.random() < 0.3,
        }
        records.append(record("interactions", value["user"], value, time))
        if number % 2:
            for label in ("likes", "leaves"):
                known = {"node": value["user"], "label": label, "value": draw.random() < 0.5, "timestamp": time}
                records.append(record("labels", value["user"], known, time))
    return records


def trained_release(topology: Topology, log: TrainingLog, folder: Path) -> Model:
    """As a worker gets it: trained, written to a store, read from there."""
    trained = train(topology, log, link_settings(topology), head_settings(topology))
    assert all(head.trained for head in trained.heads)
    store = ReleaseStore(folder)
    return store.load(store.save(trained.model, new_card(topology, trained.model.config)).name)[0]


def half_edges_of(log: TrainingLog) -> HalfEdges:
    """In the order of time; by the keys and ids of the wire."""
    nodes, events = np.array(log.nodes), log.interactions
    return both_halves(nodes[events.source], nodes[events.destination], log.ids, events.time, events.edge)


def set_features(cluster: Cluster, log: TrainingLog) -> None:
    assert log.node_features is not None
    for number in range(len(cluster.partitions)):
        mine = [n for n, node in enumerate(log.nodes) if cluster.partition_of(node) == number]
        if mine:
            cluster.engine.set_features(number, np.array(log.nodes)[mine], log.node_features[mine])
            cluster.engine.save(number)


@pytest.mark.parametrize("shape", SHAPES)
def test_streamed_embeddings_and_predictions_equal_those_of_evaluation(shape: str, tmp_path: Path) -> None:
    topology = topology_of(shape)
    draw = random.Random(7)
    log = build_log(topology, stream_of(draw, topology))
    model = trained_release(topology, log, tmp_path)
    graph = TemporalGraph.of(log.interactions, log.node_features)
    events = np.arange(len(log.interactions))
    with torch.inference_mode():
        expected = {
            side: graph.embed(model, nodes, log.interactions.time).numpy()
            for side, nodes in enumerate((log.interactions.source, log.interactions.destination))
        }
        inputs = embed_events(model, graph, events)
        probabilities = model.predict(inputs[:, :8], inputs[:, 8:]).numpy()

    half_edges = half_edges_of(log)
    arrival = np.argsort([place + draw.uniform(0, 15) for place in events])
    cluster = Cluster(Engine(model, 3, id_bytes=32), 3, draw)
    set_features(cluster, log)
    cluster.feed(half_edges.take(np.stack([2 * arrival, 2 * arrival + 1], 1).ravel()))
    cluster.run(crashes=False)

    half_edges_in_order = keys_of(half_edges)
    assert cluster.emitted.keys() == set(half_edges_in_order)
    for place in range(len(log.ids)):
        user, item = half_edges_in_order[2 * place : 2 * place + 2]
        for side, key in enumerate((user, item)):
            np.testing.assert_allclose(
                cluster.emitted[key], expected[side][place], rtol=0, atol=TOLERANCE, err_msg=str(key)
            )
        np.testing.assert_allclose(
            cluster.predicted[user], probabilities[place], rtol=0, atol=TOLERANCE, err_msg=str(user)
        )
    assert np.ptp(probabilities, axis=0).min() > 100 * TOLERANCE, "heads that say the same of all show nothing"
