"""Answers teach the encoder what links need not know, and leave it as it was where they bring nothing."""

import copy

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.training.fine_tuning import FineTuned, FineTuning, LinkLesson, fine_tune
from stream_tgat.training.heads import HeadSettings, HeadTask, head_tasks, train_heads
from stream_tgat.training.links import LinkSettings, evaluate_links, train_links
from stream_tgat.training.log import LabelSet
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph

USERS, ROUNDS = 12, 70
LINKS = LinkSettings(epochs=3, batch_size=60, learning_rate=0.01)
TUNING = FineTuning(epochs=25, batch_size=64, learning_rate=0.01, patience=25)
CONFIG = ModelConfig(
    layers=1,
    neighbours=8,
    candidates=8,
    edge_features=1,
    time_dim=8,
    hidden=8,
    head_names=("third",),
    head_hidden=(16, 8),
)


@pytest.fixture(scope="module")
def linked():
    """Users meet one item each, in rounds; the answer is the sign of the feature of the third-last interaction."""
    random = np.random.default_rng(3)
    count = USERS * ROUNDS
    users = np.tile(np.arange(USERS), ROUNDS)
    times = np.repeat(np.arange(ROUNDS) * 10.0, USERS)
    amounts = random.choice([-1.0, 1.0], count)
    interactions = Interactions(users, USERS + users % 3, times, amounts[:, None].astype(np.float32))
    event = np.arange(3 * USERS, count)
    labels = LabelSet(event, (amounts[event - 3 * USERS] > 0).astype(np.float64), times[event] + 1.0)
    graph = TemporalGraph.of(interactions, None)
    torch.manual_seed(0)
    model = Model(CONFIG).eval()
    train_links(model, graph, slice(0, 600), slice(600, 840), LINKS)
    return model, graph, labels


def copied(model):
    return copy.deepcopy(model)


def asked(linked, share=0.3):
    return head_tasks(linked[1], [linked[2]], np.inf, share)


def lesson_of(graph):
    return LinkLesson(np.arange(600), RandomNegatives(graph.history.interactions, 0))


def head_auc(model, graph, labels):
    """As the release's head would answer questions on validation."""
    model = copied(model)
    settings = HeadSettings(epochs=30, learning_rate=0.01, penalties=(0.001,), validation_share=0.3)
    result = train_heads(model, graph, {"third": labels}, np.inf, settings)[0]
    return roc_auc_score(result.validation_value, result.validation_probability)


@pytest.mark.slow
def test_answers_that_links_do_not_need_teach_the_encoder(linked):
    model, graph, labels = copied(linked[0]), linked[1], linked[2]
    frozen = head_auc(model, graph, labels)
    tuned = fine_tune(model, graph, asked(linked), TUNING, lesson_of(graph))
    after = head_auc(model, graph, labels)
    assert tuned.best >= 0
    assert tuned.aucs[tuned.best] == max(tuned.aucs) > tuned.before
    assert frozen < 0.85
    assert after > 0.93


def test_links_are_still_told_apart_where_they_go_on_teaching(topology, log):
    model, graph = untrained(topology, 0), TemporalGraph.of(log.interactions, log.node_features)
    settings = LinkSettings(epochs=4, batch_size=50, learning_rate=0.01)
    negatives = RandomNegatives(log.interactions, 0)
    train_links(model, graph, slice(0, 500), slice(500, 600), settings)
    before, _ = evaluate_links(model, graph, negatives, slice(500, 600), settings)
    noise = np.random.default_rng(1).integers(0, 2, len(log.labels["even"])).astype(np.float64)
    given = head_tasks(graph, [LabelSet(log.labels["even"].event, noise, log.labels["even"].known)], np.inf, 0.3)
    fine_tune(model, graph, given, FineTuning(epochs=6, learning_rate=0.01), LinkLesson(np.arange(500), negatives))
    after, _ = evaluate_links(model, graph, negatives, slice(500, 600), settings)
    assert before > 0.6
    assert after > before - 0.05


@pytest.mark.slow
def test_same_seed_gives_the_same_weights_and_another_seed_others(linked):
    def weights(seed):
        model = copied(linked[0])
        settings = FineTuning(epochs=9, learning_rate=0.01, seed=seed)
        fine_tune(model, linked[1], asked(linked), settings, lesson_of(linked[1]))
        return torch.cat([value.flatten() for value in model.encoder.state_dict().values()])

    torch.manual_seed(99)
    first = weights(0)
    assert torch.equal(first, weights(0))
    assert not torch.equal(first, weights(1))


def test_heads_and_without_lesson_affinity_stay_as_they_were(linked):
    model = copied(linked[0])
    fine_tune(model, linked[1], asked(linked), FineTuning(epochs=2, learning_rate=0.01))
    for name, value in linked[0].state_dict().items():
        assert name.startswith("encoder.") or torch.equal(value, model.state_dict()[name]), name


def test_encoder_that_answers_spoil_is_left_as_it_was(linked):
    model = copied(linked[0])
    tuned = fine_tune(model, linked[1], asked(linked), FineTuning(epochs=2, learning_rate=1e6), lesson_of(linked[1]))
    assert tuned.best == -1
    for name, value in linked[0].state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


@pytest.mark.parametrize("kept", [0, 3])
def test_too_few_answers_teach_nothing(linked, kept):
    value = np.zeros(len(linked[2]))
    value[:kept] = 1.0
    given = head_tasks(linked[1], [LabelSet(linked[2].event, value, linked[2].known)], np.inf, 0.3)
    model = copied(linked[0])
    assert fine_tune(model, linked[1], given, TUNING).aucs == ()
    assert all(map(torch.equal, model.state_dict().values(), linked[0].state_dict().values()))


def test_no_epochs_change_nothing(linked):
    model = copied(linked[0])
    result = fine_tune(model, linked[1], asked(linked), FineTuning())
    assert isinstance(result, FineTuned)
    assert result.best == -1
    assert all(map(torch.equal, model.state_dict().values(), linked[0].state_dict().values()))


def test_validation_only_chooses_and_what_is_in_neither_part_is_not_read(linked):
    def tuned(change):
        each = asked(linked)[0]
        value = each.value.copy()
        change(each, value)
        model = copied(linked[0])
        given = HeadTask(each.event, value, each.train[:-50], each.validation)
        result = fine_tune(model, linked[1], [given], FineTuning(epochs=3, learning_rate=0.01, patience=9))
        return result, model

    def forget(each, value):
        value[each.train[-50:]] = np.nan

    one, first = tuned(lambda *_: None)
    other, second = tuned(forget)
    assert one == other
    assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))


def test_a_step_of_one_answer_of_each_kind_is_enough(linked):
    result = fine_tune(
        copied(linked[0]), linked[1], asked(linked), FineTuning(epochs=1, batch_size=1), lesson_of(linked[1])
    )
    assert len(result.aucs) == 1
    assert np.isfinite(result.aucs[0])
