"""Heads: they learn from what was known, are judged on what came later, and the encoder stays as it was."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.nn.heads import PredictionHeads
from stream_tgat.training import fitting
from stream_tgat.training.fitting import Questions, fit_heads
from stream_tgat.training.heads import HeadSettings, embed_events, known_labels, split_labels, train_heads
from stream_tgat.training.links import LinkSettings, train_links
from stream_tgat.training.log import LabelSet
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph


@pytest.fixture(scope="module")
def encoded(topology, log):
    """A model with a trained encoder, and its graph."""
    model = untrained(topology, 0)
    graph = TemporalGraph.of(log.interactions, log.node_features)
    train_links(model, graph, slice(0, 500), slice(500, 600), LinkSettings(epochs=4, batch_size=50, learning_rate=0.01))
    return model, graph


@pytest.fixture
def fresh(encoded, topology):
    """The same encoder under untrained heads."""
    model = untrained(topology, 0)
    model.load_state_dict(encoded[0].state_dict())
    return model, encoded[1]


def probabilities(model, graph, labels, at):
    inputs = embed_events(model, graph, labels.event)
    with torch.inference_mode():
        return model.predict(inputs[:, :16], inputs[:, 16:])[:, at].numpy()


def test_labels_not_yet_known_at_the_cutoff_are_left_out():
    labels = LabelSet(np.arange(4), np.array([0.0, 1, 0, 1]), np.array([10.0, 30.0, 20.0, 21.0]))
    assert known_labels(labels, np.arange(4.0), 20.0).event.tolist() == [0, 2]


def test_validation_is_later_and_answers_from_its_time_do_not_teach():
    times = np.arange(10.0)
    labels = LabelSet(np.arange(10), np.zeros(10), times + 2.5)
    train, validation = split_labels(labels, times, 0.3)
    assert validation.tolist() == [7, 8, 9]
    assert train.tolist() == [0, 1, 2, 3, 4], "5 and 6 became known at 7.5 and 8.5, when validation had begun at 7"


def test_questions_of_one_time_are_not_parted():
    times = np.array([0.0, 1, 2, 2, 2, 2])
    labels = LabelSet(np.arange(6), np.zeros(6), times)
    train, validation = split_labels(labels, times, 0.2)
    assert (train.tolist(), validation.tolist()) == ([0, 1], [2, 3, 4, 5])


def test_heads_learn_a_label_and_leave_the_encoder_alone(fresh, log):
    model, graph = fresh
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    end = log.interactions.time[-1]
    results = train_heads(model, graph, log.labels, end, HeadSettings(epochs=20, learning_rate=0.01))
    even = results[0]
    assert even.trained
    found = binary_metrics(even.validation_value, even.validation_probability)
    assert found.auc > 0.9
    assert found.log_loss < 0.5
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_head_without_labels_says_so_and_never_alerts(fresh, log):
    model, graph = fresh
    results = train_heads(model, graph, log.labels, np.inf, HeadSettings(epochs=2))
    assert not results[1].trained
    assert float(model.thresholds[1]) == 1.0
    every = probabilities(model, graph, log.labels["even"], 1)
    assert_allclose(every, every[0])
    assert every[0] < 1.0


def test_probabilities_reported_are_those_of_the_saved_model(fresh, log):
    """Standardisation is folded into the first layer: the model itself, fed raw inputs, gives them."""
    model, graph = fresh
    result = train_heads(model, graph, log.labels, np.inf, HeadSettings(epochs=5, refit=False))[0]
    labels = log.labels["even"]
    _, validation = split_labels(labels, log.interactions.time[labels.event], 0.2)
    assert_allclose(probabilities(model, graph, labels.select(validation), 0), result.validation_probability, atol=1e-5)


def test_labels_of_the_future_change_nothing(fresh, topology, log):
    model, graph = fresh
    cutoff = float(log.interactions.time[400])
    labels = log.labels["even"]
    flipped = LabelSet(labels.event, np.where(labels.known > cutoff, 1 - labels.value, labels.value), labels.known)
    other = untrained(topology, 0)
    other.load_state_dict(model.state_dict())
    train_heads(model, graph, log.labels, cutoff, HeadSettings(epochs=3))
    train_heads(other, graph, {**log.labels, "even": flipped}, cutoff, HeadSettings(epochs=3))
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_same_seed_gives_the_same_heads(encoded, topology, log):
    states = []
    for _ in range(2):
        model = untrained(topology, 0)
        model.load_state_dict(encoded[0].state_dict())
        train_heads(model, encoded[1], log.labels, np.inf, HeadSettings(epochs=3, seed=4))
        states.append(model.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def asked(count=600, width=6, seed=0, signal=1.0):
    """Questions whose answer the first number gives away, up to noise: the newer half validates."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(count, width)).astype(np.float32)
    value = (signal * inputs[:, 0] + random.normal(size=count) > 0.5).astype(np.float64)
    return Questions(torch.from_numpy(inputs), value, np.arange(count // 2), np.arange(count // 2, count))


def networks(count=1, width=6):
    torch.manual_seed(0)
    return PredictionHeads(count, width, (8, 4), 0.0)


def test_best_epoch_of_each_head_and_penalty_is_restored(monkeypatch):
    scores = iter([[0.5, 0.9], [0.1, 0.1], [0.8, 0.2], [0.1, 0.1], [0.4, 0.3], [0.1, 0.1], [0.3, 0.3], [0.1, 0.1]])
    kept = []

    def judged(network, *_):
        kept.append(network.weights[2].detach().clone())
        return next(scores)

    monkeypatch.setattr(fitting, "_validated", judged)
    found = networks(2)
    settings = HeadSettings(epochs=9, patience=2, learning_rate=0.01, refit=False, penalties=(0.0, 0.1))
    results = fit_heads(found, ("one", "two"), [asked(), asked(seed=1)], settings).results
    assert [(each.best_epoch, each.penalty) for each in results] == [(0, 0.1), (0, 0.0)]
    assert len(kept) == 8, "the first head was best in its second epoch under the first penalty; patience is 2"
    # The last layer is untouched by folding the standardisation into the first; the kept network is row 0 · 2 + 1.
    assert torch.equal(found.weights[2][0], kept[0][1])


def test_validation_and_calibration_are_without_dropout():
    """Of a network that comes in training mode: what is reported is what it answers in the end, calibrated."""
    torch.manual_seed(0)
    found = PredictionHeads(1, 6, (8, 4), 0.5).train()
    fitted = fit_heads(found, ("one",), [asked()], HeadSettings(epochs=8, learning_rate=0.01, refit=False))
    inputs = asked().inputs[300:]
    with torch.inference_mode():
        logits = found(inputs, inputs[:, :0])
    expected = torch.sigmoid(logits * fitted.calibration[:, 0] + fitted.calibration[:, 1])[:, 0]
    assert_allclose(fitted.results[0].validation_probability, expected, atol=1e-5)


def test_outlier_counts_as_far_as_eight_spreads():
    """Beyond that no answer changes, in the finished network that reads raw inputs; within, it does."""
    found = networks()
    questions = asked()
    fit_heads(found, ("one",), [questions], HeadSettings(epochs=3, refit=False))
    learnt = questions.inputs[:300]
    edge = learnt.mean(0) + 8 * learnt.std(0)
    with torch.inference_mode():
        answers = found(torch.stack([edge, edge * 1.01, edge * 1e6, edge * 0.9]), torch.zeros(4, 0))[:, 0]
    assert_allclose(answers[1:3], answers[0], rtol=1e-4)
    assert abs(float(answers[3] - answers[0])) > 1e-3


def test_penalty_that_validates_best_is_taken_head_by_head():
    """Without a penalty a head learns a clear signal; one that leaves no weight ranks nothing."""
    found = networks(2)
    settings = HeadSettings(epochs=15, learning_rate=0.01, penalties=(100.0, 1e-4))
    results = fit_heads(found, ("one", "two"), [asked(), asked(seed=1)], settings).results
    assert [each.penalty for each in results] == [1e-4, 1e-4]
    assert min(binary_metrics(each.validation_value, each.validation_probability).auc for each in results) > 0.7


def test_penalty_is_decoupled_and_spares_the_biases():
    """Each step takes lr · λ of every weight: all of it where lr · λ = 1, whatever the gradients."""
    found = networks()
    settings = HeadSettings(epochs=3, learning_rate=0.01, penalties=(100.0,), refit=False)
    fit_heads(found, ("one",), [asked()], settings)
    assert not any(weight.any() for weight in found.weights)
    assert all(bias.any() for bias in list(found.biases)[2:])


def test_batches_are_half_positive_whatever_the_base_rate():
    count = 90
    value = (np.arange(count) % 9 == 0).astype(np.float64)
    inputs = torch.arange(float(count))[:, None].expand(-1, 3)
    questions = Questions(inputs, value, np.arange(count), np.zeros(0, np.int64))
    batch, truth = fitting._balanced_batch([questions, questions], [True, False], 8, 2, np.random.default_rng(0))
    assert batch.shape == (4, 16, 3)
    for member in (0, 1):
        assert_array_equal(value[batch[member, :, 0].numpy().astype(int)], truth[:, 0].numpy())
    assert float(truth[:, 0].sum()) == 8
    assert not torch.equal(batch[0], batch[1])
    assert not batch[2:].any()


@pytest.mark.parametrize("refit", [False, True])
def test_newest_labels_teach_in_the_end_for_as_long_as_validation_said(monkeypatch, refit):
    """Answers of the validation part change the weights of a refit, and only of a refit."""
    monkeypatch.setattr(fitting, "_validated", lambda *_: [0.5])
    states = []
    for newest in (0.0, 1.0):
        questions = asked()
        value = questions.value.copy()
        value[400:] = newest
        changed = Questions(questions.inputs, value, questions.train, questions.validation)
        found = networks()
        fit_heads(found, ("one",), [changed], HeadSettings(epochs=3, penalties=(0.01,), refit=refit))
        states.append(found.weights[0].detach().clone())
    assert torch.equal(*states) is not refit


@pytest.mark.parametrize("refit", [False, True])
def test_answers_that_came_while_validation_ran_teach_in_the_end_and_unknown_ones_never(refit):
    states = []
    for hidden in (0.0, 1.0, np.nan):
        questions = asked()
        value = questions.value.copy()
        value[:50] = hidden
        known = Questions(questions.inputs, value, questions.train[50:], questions.validation)
        found = networks()
        fit_heads(found, ("one",), [known], HeadSettings(epochs=3, refit=refit))
        assert all(bool(torch.isfinite(each).all()) for each in found.parameters())
        states.append(found.weights[0].detach().clone())
    assert torch.equal(states[0], states[1]) is not refit
    assert torch.equal(states[0], states[2]) is not refit


def test_head_of_several_members_is_their_mean_and_each_learns_other_draws():
    torch.manual_seed(0)
    found = PredictionHeads(2, 6, (8, 4), 0.0, members=3)
    settings = HeadSettings(epochs=6, penalties=(0.001, 0.1), refit=False)
    fitted = fit_heads(found, ("one", "two"), [asked(), asked(seed=1)], settings)
    inputs = asked(seed=5).inputs
    each, together = found.each(inputs), found(inputs, inputs[:, :0])
    assert each.shape == (600, 6)
    torch.testing.assert_close(together, torch.stack([each[:, :3].mean(1), each[:, 3:].mean(1)], 1))
    torch.testing.assert_close(found(inputs, inputs[:, :0], 1), together[:, 1:])
    assert not torch.allclose(each[:, 0], each[:, 1], atol=0.01)
    validated = asked().inputs[300:]
    expected = torch.sigmoid(
        found(validated, validated[:, :0])[:, 0] * fitted.calibration[0, 0] + fitted.calibration[0, 1]
    )
    assert_allclose(expected.detach().numpy(), fitted.results[0].validation_probability, atol=1e-5)


def test_refit_gives_each_member_the_epochs_it_took(monkeypatch):
    """Two members, one penalty: the first is best at once, the second in the last epoch."""
    scores = iter([[0.9, 0.1], [0.2, 0.2], [0.1, 0.8]])
    monkeypatch.setattr(fitting, "_validated", lambda *_: next(scores))
    torch.manual_seed(0)
    found = PredictionHeads(1, 6, (8, 4), 0.0, members=2)
    stops = []
    fit = fitting._fit
    monkeypatch.setattr(fitting, "_fit", lambda *given: stops.append(given[5:]) or fit(*given))
    settings = HeadSettings(epochs=3, penalties=(0.01,))
    assert fit_heads(found, ("one",), [asked()], settings).results[0].best_epoch == 2
    assert stops == [(), ([0, 2],)]


def test_auc_of_many_columns_is_that_of_each():
    random = np.random.default_rng(0)
    truth = random.random(50) < 0.3
    scores = random.integers(0, 9, (50, 4)).astype(np.float32)  # many ties
    expected = [binary_metrics(truth.astype(np.float64), column.astype(np.float64)).auc for column in scores.T]
    assert_allclose(fitting._aucs(truth, scores), expected)
    assert np.isnan(fitting._aucs(np.ones(3, np.bool_), scores[:3])).all()
