"""After a switch rows keep old peer embeddings, which fade with each interaction and are gone after K of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from research.prequential import staleness
from research.prequential.staleness import after_switch, measure
from stream_tgat.errors import DataError
from stream_tgat.nn.model import Model
from stream_tgat.training.heads import embed_events
from stream_tgat.training.scoring import TemporalGraph
from tests.unit.research.prequential.drifting import ENCODER, HEADS, stream

TWO_LAYERS = replace(ENCODER, layers=2, candidates=5, activity=True)
BINS = (0, 1, 3, 5)


def model_of(seed: int) -> Model:
    torch.manual_seed(seed)
    return TWO_LAYERS.untrained(edge_features=2, node_features=3).eval()


def test_switch_to_the_same_weights_is_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staleness, "BATCH", 7)
    of, model = stream(drifts=False), model_of(1)
    found = after_switch(model, model, of.interactions, of.node_features, 500.0, 650.0)
    expected = embed_events(model, TemporalGraph.of(of.interactions, of.node_features), np.arange(500, 650))[:, :8]
    np.testing.assert_allclose(found[500:650], expected, atol=1e-5)
    assert not found[:500].any()
    assert not found[650:].any()


def test_embedding_rests_on_old_peer_embeddings_until_a_node_has_met_k_others() -> None:
    of, old, new = stream(drifts=False), model_of(1), model_of(2)
    found = after_switch(old, new, of.interactions, of.node_features, 500.0, 800.0)
    graph = TemporalGraph.of(of.interactions, of.node_features)
    right = embed_events(new, graph, np.arange(500, 800))[:, :8].numpy()
    user = of.interactions.source[500:800]
    since = np.array([int((user[:at] == user[at]).sum()) for at in range(300)])
    difference = np.abs(found[500:800] - right).max(1)
    assert (since >= TWO_LAYERS.neighbours).sum() > 100
    np.testing.assert_allclose(difference[since >= TWO_LAYERS.neighbours], 0.0, atol=1e-5)
    assert difference[since < TWO_LAYERS.neighbours].min() > 1e-4
    means = [difference[since == count].mean() for count in range(TWO_LAYERS.neighbours)]
    assert means == sorted(means, reverse=True)


def test_report_tells_questions_apart_by_interactions_since() -> None:
    of = stream(drifts=True)
    report = measure(of, 2, TWO_LAYERS, HEADS, (0, 1), 150 / 86_400, BINS, 20)
    assert (report.neighbours, report.layers, report.seeds) == (4, 2, (0, 1))
    whole, bins = report.whole, report.bins
    assert whole.count == sum(each.count for each in bins) == 300  # of two heads
    assert whole.positive == sum(each.positive for each in bins)
    assert [(each.low, each.high) for each in bins] == [(0, 0), (1, 2), (3, 4), (5, None)]
    # All users had met at least four when 700 s had passed.
    assert [bins[0].share, bins[3].share] == [1.0, 0.0]
    assert bins[0].distance > bins[1].distance > bins[2].distance > 0.01
    assert bins[3].distance < 1e-5
    assert min(each.old_distance for each in bins) > 0.1
    assert bins[3].stale == bins[3].right
    assert (bins[3].cost.estimate, bins[3].cost.low) == (0.0, 0.0)
    assert whole.cost.estimate == pytest.approx(whole.stale - whole.right)


def test_one_layer_has_nothing_that_could_be_stale() -> None:
    with pytest.raises(DataError, match="with one layer nothing can be stale"):
        measure(stream(drifts=False), 1, ENCODER, HEADS, (0, 0), 1.0, BINS, 20)
