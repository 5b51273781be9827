"""The encoder's training: the loss, the best epoch, determinism, and that the future has no say."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.pairs import pair_features as pair_features_of
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.training import links
from stream_tgat.training.epochs import TrainingCallbacks
from stream_tgat.training.links import LinkSettings, spread, train_links
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph, affinities, link_loss
from stream_tgat.training.shape import model_config

SETTINGS = LinkSettings(epochs=2, batch_size=50, learning_rate=0.01, seed=3)
TRAIN, VALIDATION = slice(0, 500), slice(500, 600)


def graph_of(log):
    return TemporalGraph.of(log.interactions, log.node_features)


def test_loss_is_that_of_the_paper_with_the_signs_put_right(topology, log):
    model, graph = untrained(topology, 0), graph_of(log)
    events, drawn = np.arange(300, 320), np.random.default_rng(0).choice(log.interactions.destination, (20, 2))
    positive, negative = affinities(model, graph, events, drawn)
    expected = np.mean(
        [
            -math.log(1 / (1 + math.exp(-s))) - sum(math.log(1 - 1 / (1 + math.exp(-q))) for q in row)
            for s, row in zip(positive.tolist(), negative.tolist(), strict=True)
        ]
    )
    assert float(link_loss(model, graph, events, drawn).detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("pair_features", [False, True])
def test_each_pair_is_scored_by_its_own_source_and_time(topology, log, pair_features):
    model, graph = Model(replace(model_config(topology), pair_features=pair_features)).eval(), graph_of(log)
    events = np.array([100, 350])
    drawn = log.interactions.destination[[5, 6, 7, 8]].reshape(2, 2)
    _, together = affinities(model, graph, events, drawn)
    for row, event in enumerate(events):
        for column in range(2):
            when = log.interactions.time[[event]]
            source = graph.embed(model, log.interactions.source[[event]], when)
            other = graph.embed(model, drawn[row, [column]], when)
            asked = log.interactions.source[[event]], drawn[row, [[column]]], when
            met = torch.from_numpy(pair_features_of(graph.history, *asked, 6)[0])
            alone = model.affinity(source, other, met if pair_features else None)
            assert alone.item() == pytest.approx(together[row, column].item(), abs=1e-5)


def test_pair_features_tell_whom_a_source_meets_again():
    """Each source has a favourite of its own: embeddings of nodes without features cannot tell, recurrence can."""
    random = np.random.default_rng(1)
    source = random.integers(0, 30, 1500)
    destination = np.where(random.random(1500) < 0.8, 30 + source, 30 + random.integers(0, 30, 1500))
    graph = TemporalGraph.of(Interactions.in_time_order(source, destination, np.arange(1500.0)), None)
    found = {}
    for pair_features in (False, True):
        torch.manual_seed(0)
        config = ModelConfig(hidden=16, time_dim=8, neighbours=4, candidates=8, layers=1, pair_features=pair_features)
        settings = LinkSettings(epochs=3, batch_size=50, learning_rate=0.01)
        result = train_links(Model(config), graph, slice(0, 1200), slice(1200, 1500), settings)
        found[pair_features] = result.epochs[result.best].average_precision
    assert found[False] < 0.7
    assert found[True] > 0.85


def test_training_learns_who_meets_what(topology, log):
    model = untrained(topology, 0)
    result = train_links(
        model, graph_of(log), TRAIN, VALIDATION, LinkSettings(epochs=8, batch_size=50, learning_rate=0.01)
    )
    # Half of the random negatives are of the right kind: no scorer of kinds can be much above 0.75.
    assert result.epochs[result.best].average_precision > 0.65


def test_same_seed_gives_the_same_weights_and_another_seed_others(topology, log):
    def weights(seed):
        model = untrained(topology, seed)
        train_links(model, graph_of(log), TRAIN, VALIDATION, LinkSettings(1, 50, 2, 0.01, seed=seed))
        return torch.cat([value.flatten().double() for value in model.state_dict().values()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_best_epoch_is_the_one_restored(topology, log, monkeypatch):
    scores = iter([0.5, 0.9, 0.6, 0.7, 0.1])
    monkeypatch.setattr(links, "evaluate_links", lambda *_: (next(scores), 0.5))
    model = untrained(topology, 0)
    after = []
    progress = TrainingCallbacks(on_epoch=lambda _: after.append(model.encoder.merge[0].weight_0.detach().clone()))
    settings = LinkSettings(epochs=5, batch_size=100, learning_rate=0.01, patience=2)
    result = train_links(model, graph_of(log), TRAIN, VALIDATION, settings, progress)
    assert result.best == 1
    assert len(result.epochs) == 4, "patience 2: epochs 2 and 3 brought nothing"
    assert torch.equal(model.encoder.merge[0].weight_0, after[1])
    assert not torch.equal(after[1], after[3])


@pytest.mark.parametrize("validation", [VALIDATION, slice(600, 600)])
def test_averaged_weights_are_those_judged_and_kept_while_training_goes_on_from_its_own(
    topology, log, monkeypatch, validation
):
    """One epoch of three steps: the kept weights are their average by the rule, computed from runs of 1, 2, 3 steps."""

    def trained(events, averaging):
        model = untrained(topology, 0)
        settings = LinkSettings(1, 50, learning_rate=0.01, averaging=averaging, shuffle=False)
        train_links(model, graph_of(log), slice(0, events), validation, settings)
        return model.state_dict()

    judged = []
    monkeypatch.setattr(
        links,
        "evaluate_links",
        lambda model, _graph, _negatives, part, _settings: (
            judged.append(copy.deepcopy(model.state_dict())) or ((0.5, 0.5) if part == VALIDATION else (np.nan, np.nan))
        ),
    )
    steps = [trained(events, 0.0) for events in (50, 100, 150)]
    kept = trained(150, 0.15)
    for name, value in kept.items():
        average = steps[0][name]
        for number, step in enumerate(steps[1:], start=1):
            keeps = min(0.15, number / (number + 10))
            average = keeps * average + (1 - keeps) * step[name]
        torch.testing.assert_close(value, average)
        assert torch.equal(judged[-1][name], value)
    assert any((kept[name] != steps[-1][name]).any() for name in kept)
    # An average has no say in what comes after it: a second epoch goes on from the weights as they were.
    two = LinkSettings(2, 50, learning_rate=0.01, shuffle=False, patience=9)
    ends = []
    for averaging in (0.0, 0.9):
        seen = []
        progress = TrainingCallbacks(on_batch=lambda *batch, seen=seen: seen.append(batch[-1]))
        train_links(
            untrained(topology, 0),
            graph_of(log),
            slice(0, 150),
            validation,
            replace(two, averaging=averaging),
            progress,
        )
        ends.append(seen)
    assert ends[0] == ends[1]


def test_training_without_anything_to_validate_on_keeps_the_last_epoch(topology, log):
    model, after = untrained(topology, 0), []
    progress = TrainingCallbacks(on_epoch=lambda _: after.append(model.encoder.merge[0].weight_0.detach().clone()))
    settings = LinkSettings(epochs=3, batch_size=100, learning_rate=0.01, patience=1)
    result = train_links(model, graph_of(log), slice(0, 600), slice(600, 600), settings, progress)
    assert (len(result.epochs), result.best) == (3, -1)
    assert torch.equal(model.encoder.merge[0].weight_0, after[2])
    assert not torch.equal(after[1], after[2])


def test_what_comes_later_has_no_say_in_training(topology, log):
    """Other interactions after the training and validation parts: the same weights."""
    whole = log.interactions
    early = whole.select(slice(0, 500))
    other = Interactions(
        np.concatenate([early.source, whole.source[500:][::-1]]),
        np.concatenate([early.destination, whole.destination[500:][::-1]]),
        whole.time,
        np.concatenate([early.edge, -whole.edge[500:]]),
    )
    models = []
    for interactions in (whole, other):
        model = untrained(topology, 0)
        train_links(model, TemporalGraph.of(interactions, log.node_features), slice(0, 400), slice(400, 500), SETTINGS)
        models.append(model.state_dict())
    for name, value in models[0].items():
        assert torch.equal(value, models[1][name]), name


def test_training_reads_the_graph_it_is_given_and_validation_the_whole(topology, log, monkeypatch):
    """Interactions held out are in no neighbourhood of training, and in those of validation."""
    seen = []
    true_embed = TemporalGraph.embed
    monkeypatch.setattr(TemporalGraph, "embed", lambda self, *a: seen.append(self) or true_embed(self, *a))
    whole = graph_of(log)
    part = TemporalGraph.of(log.interactions.select(slice(0, 500)).select(slice(0, None, 2)), log.node_features)
    settings = LinkSettings(epochs=1, batch_size=1000)
    train_links(
        untrained(topology, 0),
        whole,
        slice(0, len(part.history.interactions)),
        VALIDATION,
        settings,
        training_graph=part,
    )
    assert seen == [part, whole]


def test_every_epoch_draws_other_neighbours_and_other_negatives(topology, log, monkeypatch):
    drawn, neighbours = [], []
    true_loss = links.link_loss

    def spy(model, graph, events, negatives, sampler):
        drawn.append(negatives.copy())
        found = sampler(graph.history, log.interactions.source[500:550], np.full(50, 2e9), 4)
        neighbours.append(found.event)
        return true_loss(model, graph, events, negatives, sampler)

    monkeypatch.setattr(links, "link_loss", spy)
    for sampling in ("uniform", "inverse_timespan"):
        settings = LinkSettings(epochs=2, batch_size=500, sampling=sampling)
        train_links(untrained(topology, 0), graph_of(log), TRAIN, VALIDATION, settings)
    assert all((a != b).mean() > 0.5 for a, b in zip(drawn[::2], drawn[1::2], strict=True))
    assert all((a != b).any() for a, b in zip(neighbours[::2], neighbours[1::2], strict=True))
    assert (neighbours[0] != neighbours[2]).any()


def test_share_of_the_negatives_is_whom_the_source_met_before(topology, log, monkeypatch):
    drawn = {}
    true_loss = links.link_loss

    def spy(model, graph, events, negatives, sampler):
        drawn.update(zip(events.tolist(), negatives, strict=True))
        return true_loss(model, graph, events, negatives, sampler)

    monkeypatch.setattr(links, "link_loss", spy)
    settings = LinkSettings(epochs=1, batch_size=100, negatives=2, historical_share=1.0)
    train_links(untrained(topology, 0), graph_of(log), TRAIN, VALIDATION, settings)
    whole, checked = log.interactions, 0
    for event, negatives in drawn.items():
        before = (whole.time < whole.time[event]) & (whole.source == whole.source[event])
        met = set(whole.destination[before].tolist()) - {int(whole.destination[event])}
        if met:
            checked += 1
            assert set(negatives.tolist()) <= met
    assert checked > 400


def test_validation_is_the_same_however_long_training_may_last(topology, log):
    model, graph = untrained(topology, 0), graph_of(log)
    negatives = RandomNegatives(log.interactions)
    few, many = (
        links.evaluate_links(model, graph, negatives, VALIDATION, LinkSettings(epochs=epochs)) for epochs in (1, 50)
    )
    assert few == many


def test_log_drop_out_of_neighbours_trains(topology, log):
    settings = LinkSettings(epochs=1, batch_size=100, neighbour_dropout=0.3, sampling="uniform")
    model = untrained(topology, 0)
    before = model.encoder.merge[0].weight_0.detach().clone()
    result = train_links(model, graph_of(log), TRAIN, VALIDATION, settings)
    assert np.isfinite(result.epochs[0].loss)
    assert not torch.equal(before, model.encoder.merge[0].weight_0)


def test_every_interaction_of_an_epoch_is_used_once_the_last_batch_included(topology, log, monkeypatch):
    seen = []
    true_loss = links.link_loss
    monkeypatch.setattr(links, "link_loss", lambda *a: seen.extend(a[2].tolist()) or true_loss(*a))
    train_links(untrained(topology, 0), graph_of(log), slice(0, 130), VALIDATION, LinkSettings(epochs=1, batch_size=50))
    assert sorted(seen) == list(range(130))


def test_spread_is_even_distinct_and_within_the_range():
    places = spread(slice(10, 110), 30, phase=0.99)
    assert len(set(places.tolist())) == 30
    assert places.min() >= 10
    assert places.max() < 110
    assert np.diff(places).max() <= 4
    assert_array_equal(spread(slice(3, 6), None), [3, 4, 5])
    assert_array_equal(spread(slice(3, 6), 9), [3, 4, 5])
    assert len(spread(slice(5, 5), 9)) == 0
    assert_array_equal(spread(np.array([2, 5, 8, 9]), 2), [2, 8])


def test_training_embeddings_are_those_of_the_served_model(topology, log):
    """What the heads are trained on is what the model gives without dropout and gradient."""
    from stream_tgat.training.heads import embed_events

    model, graph = untrained(topology, 0), graph_of(log)
    events = np.array([20, 300, 300, 599])
    inputs = embed_events(model, graph, events)
    with torch.inference_mode():
        expected = graph.embed(model, log.interactions.source[events], log.interactions.time[events])
    assert_allclose(inputs[:, :16], expected, atol=1e-6)
    assert_array_equal(inputs[:, 16:], log.interactions.edge[events])
