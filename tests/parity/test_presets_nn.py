"""The presets against the peers' and the paper's numbers, through the nn module and its own neighbour selection."""

import numpy as np
import pytest
import torch

from stream_tgat.nn.embedding import embed
from tests.parity.fixtures import NAMES, Fixture, load_fixture

TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-6}
PAPER_FLOAT32 = 1e-5  # its embeddings are larger


def embedded(fixture: Fixture) -> np.ndarray:
    with torch.inference_mode():
        history, features = fixture.history(), fixture.node_features
        return embed(fixture.model, history, features, fixture.nodes, fixture.times).numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_preset_with_the_fixtures_weights_gives_its_embeddings(name: str, dtype: torch.dtype) -> None:
    fixture = load_fixture(name, dtype)
    tolerance = PAPER_FLOAT32 if (name, dtype) == ("paper_layer", torch.float32) else TOLERANCE[dtype]
    got = embedded(fixture)
    assert got.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    assert np.abs(got - fixture.expected).max() <= tolerance


@pytest.mark.parametrize("name", ["reference", "dyglib"])
def test_preset_equals_the_peer_itself_wherever_it_does_not_average_padding(name: str) -> None:
    double, single = load_fixture(name, torch.float64), load_fixture(name)
    raw, clean = double.raw, ~double.flagged
    assert 100 < clean.sum() < len(clean), "the fixture has nodes with and without a past"
    peer = np.concatenate([raw["src_embedding_f64"], raw["dst_embedding_f64"]])
    assert np.abs(embedded(double) - peer)[clean].max() <= 1e-10
    assert single.peer_float32 is not None
    assert np.abs(embedded(single) - single.peer_float32)[clean].max() <= 1e-5


@pytest.mark.parametrize("name", ["reference", "dyglib"])
def test_neighbours_are_the_most_recent_strictly_before(name: str) -> None:
    fixture = load_fixture(name)
    raw = fixture.raw
    for end in ("src", "dst"):
        count = len(raw[f"{end}_hop1_nodes"])
        k = fixture.model.config.neighbours
        found = fixture.history().recent(raw[f"query_{end}"][:count], raw["query_time"][:count], k)
        np.testing.assert_array_equal(found.node, raw[f"{end}_hop1_nodes"])
        np.testing.assert_array_equal(np.where(found.mask, found.event + 1, 0), raw[f"{end}_hop1_events"])
        np.testing.assert_array_equal(found.time, raw[f"{end}_hop1_times"])


def test_reference_affinity_equals_the_peers_score() -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        fixture = load_fixture("reference", dtype)
        source, destination = torch.from_numpy(embedded(fixture)).chunk(2)
        with torch.inference_mode():
            score = fixture.model.affinity(source, destination).numpy()
        assert np.abs(score - fixture.raw["score_zero_aggregate"]).max() <= tolerance


def test_paper_layer_intermediate_values() -> None:
    """Layer 2 alone, from the file's own layer 1: neighbours, attention, aggregate."""
    fixture = load_fixture("paper_layer", torch.float64)
    raw, model = fixture.raw, fixture.model
    found = fixture.history().recent(fixture.nodes, fixture.times, model.config.neighbours)
    np.testing.assert_array_equal(found.node, raw["neighbour_nodes"])
    np.testing.assert_array_equal(np.where(found.mask, found.event + 1, 0), raw["neighbour_events"])
    np.testing.assert_array_equal(found.time, raw["neighbour_times"])
    assert np.array_equal(~found.mask.any(1), raw["without_past"])
    assert raw["without_past"].any()

    own = torch.from_numpy(raw["query_hidden"])
    span = torch.from_numpy(np.where(found.mask, fixture.times[:, None] - found.time, 0.0))
    edge = torch.from_numpy(raw["edge_feat"][raw["neighbour_events"]])
    mask, hidden = torch.from_numpy(found.mask), torch.from_numpy(raw["neighbour_hidden"])
    with torch.inference_mode():
        encoding = model.encoder.time_encoding
        zero, time = encoding.at_zero(torch.float64), encoding(span, torch.float64)
        aggregate, weights = model.encoder.attention[1](own, zero, hidden, edge, time, mask)
        features = fixture.node_features[torch.from_numpy(fixture.nodes)]
        embedding, again = model.layer(2, [features, own], hidden, edge, span, mask)
    assert np.abs(weights.numpy() - raw["attention"]).max() <= 1e-10
    assert torch.equal(weights, again)
    assert np.abs(aggregate.numpy() - raw["aggregate"]).max() <= 1e-10
    assert not aggregate[torch.from_numpy(raw["without_past"])].any()
    assert np.abs(embedding.numpy() - raw["embedding"]).max() <= 1e-10
