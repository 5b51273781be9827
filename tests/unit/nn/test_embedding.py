"""Embeddings of a batch against the recursion of the paper."""

from typing import Any

import numpy as np
import pytest
import torch

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import uniform
from stream_tgat.nn import embedding
from stream_tgat.nn.embedding import attended, configured_sampler, distinct_pairs, embed
from stream_tgat.nn.model import Model
from tests.unit.nn.models import PRESET_NAMES, random_model
from tests.unit.nn.plain import plain_attended, plain_embedding

NODES = 9


def random_history(count: int = 60, edge: int = 3, seed: int = 0) -> TemporalAdjacency:
    """Few nodes, many ties in time, self-loops and repeats."""
    random = np.random.default_rng(seed)
    return TemporalAdjacency(
        Interactions.in_time_order(
            random.integers(0, NODES - 1, count),
            random.integers(0, NODES - 1, count),
            1.6e9 + random.integers(0, 25, count) * 1.5,
            random.standard_normal((count, edge)),
        ),
        node_count=NODES,
    )


def random_queries(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, NODES, count), 1.6e9 + random.integers(-2, 40, count) * 1.0


@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize(
    "config",
    [
        {"edge_features": 3},
        {"edge_features": 3, "node_features": 4},
        {"edge_features": 3, "node_features": 4, "activity": True, "layers": 3},
        {"edge_features": 3, "activity": True},
        {"edge_features": 3, "layers": 1},
        {"activity": True},
    ],
)
def test_embed_equals_the_recursion(preset: str, config: dict[str, Any]) -> None:
    model = random_model(preset=preset, **config)
    history = random_history(edge=model.config.edge_features)
    features = np.random.default_rng(2).standard_normal((NODES, model.config.node_features))
    nodes, times = random_queries(6)
    got = embed(model, history, torch.from_numpy(features), nodes, times)
    for row, (node, time) in enumerate(zip(nodes, times, strict=True)):
        expected = plain_embedding(model, history, features, model.config.layers, int(node), float(time))
        # Activity is float32 in the package, for training and stream alike.
        tolerance = 1e-5 if model.config.activity else 1e-9
        np.testing.assert_allclose(got[row].detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("single", [False, True])
def test_attended_gives_the_weights_of_the_last_layer(single: bool) -> None:
    """Queries come twice and in any order; float32 goes another way than float64."""
    model = random_model(edge_features=3, layers=2)
    history = random_history()
    nodes, times = (np.concatenate([array, array[::-1]]) for array in random_queries(6))
    found, weights = attended(model.float() if single else model, history, None, nodes, times)
    features = np.zeros((NODES, 0))
    for row, (node, time) in enumerate(zip(nodes, times, strict=True)):
        _, expected = plain_attended(model, history, features, 2, int(node), float(time))
        got = weights[row].detach().numpy()
        tolerance = 1e-5 if single else 1e-9
        np.testing.assert_allclose(got[:, found.mask[row]], expected, rtol=tolerance, atol=tolerance)
        assert not got[:, ~found.mask[row]].any()
        ends = history.interactions.source + history.interactions.destination
        assert (ends[found.event[row]][found.mask[row]] - node == found.node[row][found.mask[row]]).all()


@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize(
    "config",
    [
        {"edge_features": 3},
        {"edge_features": 3, "node_features": 4, "layers": 3},
        {"edge_features": 3, "node_features": 4, "activity": True},
        {"activity": True},
        {"layers": 1},
    ],
)
def test_rows_that_stay_where_they_are_give_the_same_embeddings_and_gradients(
    preset: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """float32 on a CPU goes another way than float64, which is compared with the recursion."""
    exact, fast = random_model(preset=preset, **config), random_model(preset=preset, **config).float()
    fast.encoder.time_encoding.double()
    with torch.no_grad():
        for one, other in zip(exact.parameters(), fast.parameters(), strict=True):
            one.copy_(other)
    torch.manual_seed(3)  # a ReLU that is almost zero may be on the other side in float32; here none is
    history = random_history(edge=exact.config.edge_features)
    features = torch.randn(NODES, exact.config.node_features) if exact.config.node_features else None
    nodes, times = random_queries(30)
    weight = torch.randn(30, 8)

    def run(model: Model, dtype: torch.dtype) -> list[torch.Tensor]:
        given = None if features is None else features.to(dtype)
        result = embed(model, history, given, nodes, times)
        parameters = list(model.encoder.parameters())
        return [result, *torch.autograd.grad((result * weight).sum(), parameters, allow_unused=True)]

    expected, got = run(exact, torch.float64), run(fast, torch.float32)
    monkeypatch.setattr(embedding, "ROWS_CHUNK", 7)
    for found in (got, run(fast, torch.float32)):
        for one, other in zip(found, expected, strict=True):
            size = 1.0 if other is None or not other.numel() else float(other.detach().abs().max())
            torch.testing.assert_close(one, other, rtol=0.0, atol=3e-4 * max(size, 1e-3), check_dtype=False)


def test_zero_node_features_may_be_left_out() -> None:
    for dtype in (torch.float32, torch.float64):
        for preset in PRESET_NAMES:
            model = random_model(dtype, preset=preset, edge_features=3, node_features=4)
            history = random_history()
            nodes, times = random_queries(20)
            with_zeros = embed(model, history, torch.zeros(NODES, 4, dtype=dtype), nodes, times)
            torch.testing.assert_close(embed(model, history, None, nodes, times), with_zeros, rtol=1e-5, atol=1e-5)


def test_dropout_of_rows_that_stay_scales_what_is_kept() -> None:
    """In the mean the aggregate is as without dropout, and the backward pass has the masks of the forward pass."""
    model = random_model(torch.float32, edge_features=3, layers=1, attention_dropout=0.4).train()
    history, (nodes, times) = random_history(), random_queries(10)
    aggregates: list[torch.Tensor] = []
    merge = model.encoder.merge[0]
    merge.register_forward_pre_hook(lambda _, parts: aggregates.append(parts[0]))
    value = model.encoder.attention[0].value
    for seed in range(600):
        torch.manual_seed(seed)
        embed(model, history, None, nodes, times)
    mean = torch.stack(aggregates).mean(0)
    # Linear in the values: the gradient must reproduce the aggregate of the very masks that were drawn.
    (gradient,) = torch.autograd.grad(aggregates[3].sum(), [value])
    torch.testing.assert_close((gradient * value).sum(), aggregates[3].sum(), rtol=1e-4, atol=1e-4)
    model.eval()
    embed(model, history, None, nodes, times)
    assert (aggregates[0] - aggregates[-1]).abs().max() > 0.1
    torch.testing.assert_close(mean, aggregates[-1], rtol=0.0, atol=0.12)


def test_neighbours_of_rows_that_stay_are_hidden_with_the_given_share() -> None:
    """One neighbour each: hidden, the embedding is that of a node without a past."""
    model = random_model(torch.float32, layers=1).train()
    model.encoder.neighbour_dropout = 0.25
    count = 4000
    history = TemporalAdjacency(Interactions.in_time_order(np.arange(count), np.full(count, count), np.zeros(count)))
    torch.manual_seed(0)
    with torch.inference_mode():
        nodes, times = np.arange(count), np.ones(count)
        got = embed(model, history, None, nodes, times)
        alone = embed(model, history, None, nodes[:1], np.zeros(1))
    hidden = torch.isclose(got, alone, atol=1e-6).all(1)
    assert abs(hidden.float().mean().item() - 0.25) < 0.03


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_a_residual_is_added_to_drops_out_in_training_only(dtype: torch.dtype) -> None:
    model = random_model(dtype, preset="dyglib", edge_features=3, node_features=2, layers=1, attention_dropout=0.0)
    model.encoder.output_dropout = 0.4
    history, (nodes, times) = random_history(), random_queries(12)
    features = torch.randn(NODES, 2, dtype=dtype)
    sums: list[torch.Tensor] = []
    model.encoder.attention[0].norm.register_forward_pre_hook(lambda _, given: sums.append(given[0].detach()))
    embed(model, history, features, nodes, times)
    model.train()
    torch.manual_seed(0)
    embed(model, history, features, nodes, times)
    pairs = distinct_pairs(nodes, times)[0]
    zero = model.encoder.time_encoding.at_zero(dtype).detach()
    query = torch.cat([features[torch.from_numpy(pairs)], zero.expand(len(pairs), -1)], 1)
    whole, dropped = sums[0] - query, sums[1] - query
    gone = torch.isclose(dropped, torch.zeros_like(dropped), atol=1e-5)
    assert 0.2 < gone.float().mean().item() < 0.6
    torch.testing.assert_close(dropped[~gone], whole[~gone] / 0.6, rtol=1e-4, atol=1e-4)


def test_embed_any_split_of_a_batch_agrees() -> None:
    model = random_model(edge_features=3, activity=True)
    history = random_history()
    nodes, times = random_queries(40)
    with torch.inference_mode():
        whole = embed(model, history, None, nodes, times)
        singles = torch.cat([embed(model, history, None, nodes[i : i + 1], times[i : i + 1]) for i in range(40)])
    torch.testing.assert_close(whole, singles, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_embed_in_chunks_has_the_same_gradients(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(preset=preset, edge_features=3, node_features=2)
    history = random_history()
    nodes, times = random_queries(50)
    features = torch.randn(NODES, 2, dtype=torch.float64)
    parameters = list(model.encoder.parameters())

    def gradients() -> list[torch.Tensor | None]:
        result = embed(model, history, features, nodes, times).square().sum()
        return list(torch.autograd.grad(result, parameters))

    whole = gradients()
    monkeypatch.setattr(embedding, "CHUNK", 7)
    for one, other in zip(gradients(), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_embed_with_dropout_in_chunks_draws_the_same_masks_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is linear in what dropout scales, so a gradient by finite differences shows a mask that changed."""
    model = random_model(edge_features=3, attention_dropout=0.5)
    model.train()
    history = random_history()
    nodes, times = random_queries(50)
    monkeypatch.setattr(embedding, "CHUNK", 7)
    value = model.encoder.attention[1].value

    def loss() -> torch.Tensor:
        torch.manual_seed(5)
        return embed(model, history, None, nodes, times).sum()

    (gradient,) = torch.autograd.grad(loss(), [value])
    direction = torch.randn_like(value) * 1e-6
    with torch.no_grad():
        value.add_(direction)
        up = loss()
        value.sub_(2 * direction)
        down = loss()
    torch.testing.assert_close((gradient * direction).sum() * 2, up - down, rtol=1e-4, atol=1e-9)


def test_embed_without_interactions_or_queries() -> None:
    model = random_model(torch.float32, edge_features=3, activity=True)
    history = TemporalAdjacency(Interactions.in_time_order([], [], [], np.zeros((0, 3))), node_count=NODES)
    nodes, times = random_queries(4)
    assert embed(model, history, None, nodes, times).isfinite().all()
    assert embed(model, random_history(), None, nodes[:0], times[:0]).shape == (0, 8)


def test_embed_of_a_repeated_pair_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(edge_features=3)
    seen: list[int] = []
    layer = model.layer

    def counted(number: int, own: list[torch.Tensor], *rest: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(len(own[0]))
        return layer(number, own, *rest)

    monkeypatch.setattr(model, "layer", counted)
    nodes, times = np.array([1, 1, 1, 2]), np.full(4, 1.6e9 + 30.0)
    embed(model, random_history(), None, nodes, times)
    assert seen[-1] == 2


def test_distinct_pairs() -> None:
    nodes, times, place = distinct_pairs(np.array([3, 1, 3, 3]), np.array([0.5, 0.5, 0.25, 0.5]))
    assert sorted(zip(nodes, times, strict=True)) == [(1, 0.5), (3, 0.25), (3, 0.5)]
    assert nodes[place].tolist() == [3, 1, 3, 3]
    assert times[place].tolist() == [0.5, 0.5, 0.25, 0.5]


def test_configured_sampler_uniform_stays_among_the_candidates() -> None:
    model = random_model(edge_features=3, sampling="uniform", neighbours=2, candidates=4)
    nodes, times = np.arange(8), np.full(8, np.inf)
    history = random_history(200)
    found = configured_sampler(model.config)(history, nodes, times, 2)
    assert (found.event >= history.recent(nodes, times, 4).event.min(1, keepdims=True)).all()
    expected = uniform(4)(history, nodes, times, 2)
    np.testing.assert_array_equal(found.event, expected.event)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_embed_on_a_gpu_equals_the_cpu(preset: str) -> None:
    model = random_model(preset=preset, edge_features=3, node_features=2, activity=True)
    history = random_history()
    features = torch.randn(NODES, 2, dtype=torch.float64)
    nodes, times = random_queries(50)
    expected = embed(model, history, features, nodes, times)
    edges = torch.from_numpy(history.interactions.edge).cuda()
    for edge_features in (None, edges):
        got = embed(model.cuda(), history, features.cuda(), nodes, times, edge_features=edge_features)
        assert got.is_cuda
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-9, atol=1e-9)
