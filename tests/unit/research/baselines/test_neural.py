"""Aggregators against hand computation, and the encoder around them."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from research.baselines.neural import (
    Additive,
    AggregatingModel,
    Constant,
    MaxPool,
    Mean,
    Recurrent,
    constant_weights,
)
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.embedding import embed
from stream_tgat.nn.model import ModelConfig

Z, D, HEADS, K = 5, 6, 2, 4
KINDS = ("constant", "additive", "mean", "pool", "lstm")
MASK = torch.tensor([[True] * 4, [False, False, True, True], [False] * 4, [False, True, False, True]])


def aggregators():
    torch.manual_seed(1)
    return [Mean(Z), Constant(Z, D), Additive(Z, D, HEADS), MaxPool(Z, D), Recurrent(Z, D)]


def inputs(seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(4, Z, generator=random), torch.randn(4, K, Z, generator=random)


@pytest.mark.parametrize("aggregator", aggregators(), ids=KINDS)
def test_absent_neighbours_whatever_they_hold_change_nothing(aggregator):
    query, keys = inputs()
    other = torch.where(MASK.unsqueeze(-1), keys, torch.full_like(keys, 1e4))
    for one, two in zip(aggregator(query, keys, MASK), aggregator(query, other, MASK), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("aggregator", aggregators(), ids=KINDS)
def test_empty_neighbourhood_gives_a_zero_aggregate_and_zero_weights(aggregator):
    aggregate, weights = aggregator(*inputs(), MASK)
    assert aggregate.shape == (4, aggregator.out_width)
    assert not aggregate[2].any()
    assert not weights[2].any()


@pytest.mark.parametrize("aggregator", aggregators(), ids=KINDS)
def test_batch_of_one_equals_its_row_in_a_larger_batch(aggregator):
    query, keys = inputs()
    together = aggregator(query, keys, MASK)[0]
    for row in range(4):
        alone = aggregator(query[row : row + 1], keys[row : row + 1], MASK[row : row + 1])[0]
        torch.testing.assert_close(alone[0], together[row])


@pytest.mark.parametrize("aggregator", aggregators(), ids=KINDS)
def test_only_the_lstm_depends_on_the_order_of_neighbours(aggregator):
    query, keys = inputs()
    one = aggregator(query, keys, MASK)[0]
    two = aggregator(query, keys.flip(1), MASK.flip(1))[0]
    assert torch.allclose(one[:2], two[:2], atol=1e-6) == (not isinstance(aggregator, Recurrent))


def test_constant_weights_are_one_over_the_count():
    weights = constant_weights(MASK, torch.float32)
    expected = torch.tensor([[0.25] * 4, [0, 0, 0.5, 0.5], [0.0] * 4, [0, 0.5, 0, 0.5]])
    assert torch.equal(weights.squeeze(1), expected)


def test_mean_equals_hand_computation():
    keys = torch.tensor([[[9.0, 9.0], [1.0, 2.0], [3.0, 6.0]]])
    aggregate, _ = Mean(2)(torch.zeros(1, 2), keys, torch.tensor([[False, True, True]]))
    assert aggregate.tolist() == [[2.0, 4.0]]


def test_constant_is_the_mean_through_the_value_matrix():
    constant = Constant(2, 2)
    with torch.no_grad():
        constant.value.copy_(torch.tensor([[1.0, 0.0], [10.0, 1.0]]))
    keys = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])
    aggregate, weights = constant(torch.zeros(1, 2), keys, torch.ones(1, 2, dtype=torch.bool))
    assert aggregate.tolist() == [[42.0, 4.0]]
    assert weights.tolist() == [[[0.5, 0.5]]]


def test_additive_attention_equals_the_formula_written_out():
    torch.manual_seed(2)
    layer = Additive(Z, D, HEADS).double()
    query, keys = (each.double() for each in inputs())
    aggregate, weights = layer(query, keys, MASK)
    width = D // HEADS
    for row in (0, 1, 3):
        for head in range(HEADS):
            project = layer.project[:, head * width : (head + 1) * width]
            vector = torch.cat([layer.ask[head, :, 0], layer.answer[head, :, 0]])
            present = [place for place in range(K) if MASK[row, place]]
            scores = []
            for place in present:
                score = (vector @ torch.cat([query[row] @ project, keys[row, place] @ project])).item()
                scores.append(score if score > 0 else 0.2 * score)
            total = sum(math.exp(score) for score in scores)
            alpha = [math.exp(score) / total for score in scores]
            summed = sum(a * (keys[row, place] @ project) for a, place in zip(alpha, present, strict=True))
            expected = torch.where(summed > 0, summed, summed.exp() - 1)
            torch.testing.assert_close(weights[row, head, present], torch.tensor(alpha, dtype=torch.float64))
            torch.testing.assert_close(aggregate[row, head * width : (head + 1) * width], expected)


def test_additive_attention_sums_to_one_and_ignores_padding():
    weights = Additive(Z, D, HEADS)(*inputs(), MASK)[1]
    assert not weights.transpose(1, 2)[~MASK].any()
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0, 1.0]).unsqueeze(1).expand(-1, HEADS))


def test_pool_is_the_largest_number_by_number():
    pool = MaxPool(2, 2)
    with torch.no_grad():
        pool.weight.copy_(torch.eye(2))
        pool.bias.copy_(torch.tensor([0.5, 0.0]))
    keys = torch.tensor([[[1.0, -2.0], [-3.0, 6.0], [50.0, 50.0]]])
    aggregate, _ = pool(torch.zeros(1, 2), keys, torch.tensor([[True, True, False]]))
    assert aggregate.tolist() == [[1.5, 6.0]]


def test_lstm_runs_over_the_neighbours_that_exist_oldest_first():
    torch.manual_seed(3)
    layer = Recurrent(Z, D)
    query, keys = inputs()
    aggregate, _ = layer(query, keys, MASK)
    cell = nn.LSTMCell(Z, D)
    with torch.no_grad():
        for name, value in layer.lstm.named_parameters():
            getattr(cell, name.removesuffix("_l0")).copy_(value)
    for row in (0, 1, 3):
        state = (torch.zeros(1, D), torch.zeros(1, D))
        for place in range(K):
            if MASK[row, place]:
                state = cell(keys[row, place : place + 1], state)
        torch.testing.assert_close(aggregate[row], state[0][0])


def config(**changes):
    wanted = {"hidden": 8, "time_dim": 6, "neighbours": 3, "candidates": 5, "layers": 2}
    return ModelConfig(**(wanted | changes))


def history(edge_features=0):
    source, destination = [0, 1, 0, 2, 0, 1], [3, 3, 4, 4, 5, 5]
    edge = np.random.default_rng(0).normal(size=(6, edge_features)).astype(np.float32)
    return TemporalAdjacency(Interactions.in_time_order(source, destination, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], edge))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reads_time", [False, True])
def test_embedding_reads_only_what_came_strictly_before(kind, reads_time):
    torch.manual_seed(4)
    model = AggregatingModel(config(edge_features=2, activity=True), kind, reads_time=reads_time).eval()
    full = history(2)
    early = TemporalAdjacency(full.interactions.select(slice(0, 4)), full.node_count)
    nodes, times = np.arange(6), np.full(6, 5.0)  # the interaction at 5 itself must not be seen
    with torch.no_grad():
        whole, cut = embed(model, full, None, nodes, times), embed(model, early, None, nodes, times)
        later = embed(model, full, None, nodes, times + 0.5)
    torch.testing.assert_close(whole, cut)
    assert torch.isfinite(whole).all()
    assert not torch.allclose(whole[0], later[0])


@pytest.mark.parametrize("kind", KINDS)
def test_only_methods_with_time_see_when_something_happened(kind):
    torch.manual_seed(5)
    moved = history(2).interactions
    moved = TemporalAdjacency(Interactions(moved.source, moved.destination, moved.time * 0.9, moved.edge))
    for reads_time in (False, True):
        model = AggregatingModel(config(edge_features=2), kind, reads_time=reads_time).eval()
        with torch.no_grad():
            here, there = (embed(model, each, None, np.array([0]), np.array([7.0])) for each in (history(2), moved))
        assert torch.allclose(here, there) == (not reads_time)


@pytest.mark.parametrize("kind", KINDS)
def test_without_any_input_every_embedding_is_zero_and_training_still_steps(kind):
    model = AggregatingModel(config(), kind, reads_time=False)
    embedded = embed(model, history(), None, np.arange(6), np.full(6, 9.0))
    assert not embedded.any()
    embedded.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_empty_history_gives_finite_embeddings(kind):
    nothing = TemporalAdjacency(Interactions.in_time_order([], [], []), 3)
    model = AggregatingModel(config(), kind, reads_time=True).eval()
    with torch.no_grad():
        assert torch.isfinite(embed(model, nothing, None, np.array([2]), np.array([1.0]))).all()
