"""A killed training goes on: with the weights of one that was not, and only with its own checkpoint."""

import math
from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_equal

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.checkpoint import CHECKPOINT_FILE, LOG_FILE, Checkpoint
from stream_tgat.training.epochs import Epoch, TrainingCallbacks, read_epochs, write_epochs
from stream_tgat.training.links import LinkSettings, train_links
from stream_tgat.training.negatives import AnyDestination, RandomNegatives
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.scoring import TemporalGraph

SETTINGS = LinkSettings(
    epochs=3, batch_size=50, learning_rate=0.01, averaging=0.9, seed=3, neighbour_dropout=0.2, sampling="uniform"
)
TRAIN, VALIDATION = slice(0, 500), slice(500, 600)


class KilledError(Exception):
    pass


def kill_at(epoch, batch):
    """Die after that batch, or after that epoch where the batch is None."""

    def on_batch(at, done, total, loss):
        if (at, done) == (epoch, batch):
            raise KilledError

    def on_epoch(figures):
        if batch is None and figures.number == epoch:
            raise KilledError

    return TrainingCallbacks(on_batch, on_epoch)


def trained(topology, log, settings=SETTINGS, checkpoint=None, progress=None):
    model = untrained(topology, settings.seed)
    graph = TemporalGraph.of(log.interactions, log.node_features)
    result = train_links(model, graph, TRAIN, VALIDATION, settings, progress, checkpoint=checkpoint)
    return model.state_dict(), result


@pytest.mark.parametrize("kills", [[(0, 4)], [(0, 7), (1, 1), (1, 10)], [(1, None)], [(2, 10), (2, None)]])
def test_killed_training_goes_on_to_the_weights_of_one_that_was_not(topology, log, tmp_path, kills):
    weights, result = trained(topology, log)
    checkpoint = Checkpoint(tmp_path, every_batches=3)
    for epoch, batch in kills:
        with pytest.raises(KilledError):
            trained(topology, log, checkpoint=checkpoint, progress=kill_at(epoch, batch))
    done = []
    resumed, again = trained(
        topology, log, checkpoint=checkpoint, progress=TrainingCallbacks(lambda *a: done.append(a[:2]))
    )
    assert len(done) < 30, "it did not start over"
    assert again.best == result.best
    for one, other in zip(again.epochs, result.epochs, strict=True):
        assert one == other
    for name, value in weights.items():
        assert torch.equal(value, resumed[name]), name


def test_finished_training_has_nothing_left_to_do_and_still_gives_its_best(topology, log, tmp_path):
    weights, result = trained(topology, log, checkpoint=Checkpoint(tmp_path))
    resumed, again = trained(topology, log, checkpoint=Checkpoint(tmp_path), progress=kill_at(0, 1))
    assert again == result
    assert all(torch.equal(value, resumed[name]) for name, value in weights.items())


def test_training_may_be_prolonged(topology, log, tmp_path):
    weights, _ = trained(topology, log)
    trained(topology, log, replace(SETTINGS, epochs=1), Checkpoint(tmp_path))
    longer, _ = trained(topology, log, SETTINGS, Checkpoint(tmp_path), kill_at(0, 1))
    assert all(torch.equal(value, longer[name]) for name, value in weights.items())


def test_checkpoint_of_another_training_is_refused(topology, log, tmp_path):
    trained(topology, log, replace(SETTINGS, epochs=1), Checkpoint(tmp_path))
    shifted = Interactions(*(getattr(log.interactions, name) for name in ("source", "destination")),
                           log.interactions.time + 1.0, log.interactions.edge)  # fmt: skip
    for settings, other in (
        (replace(SETTINGS, learning_rate=0.02), log),
        (SETTINGS, replace(log, interactions=shifted)),
    ):
        with pytest.raises(DataError, match=r"checkpoint.safetensors belongs to another training .* start over"):
            trained(topology, other, settings, Checkpoint(tmp_path))


def test_checkpoint_of_other_negatives_or_features_is_refused(topology, log, tmp_path):
    def train(features, negatives):
        graph = TemporalGraph.of(log.interactions, features)
        settings = replace(SETTINGS, epochs=1)
        model = untrained(topology, 3)
        train_links(model, graph, TRAIN, VALIDATION, settings, negatives=negatives, checkpoint=Checkpoint(tmp_path))

    train(log.node_features, RandomNegatives(log.interactions, 3))
    train(log.node_features, None)
    for features, negatives in (
        (2 * log.node_features, None),
        (log.node_features, AnyDestination(log.interactions, 3)),
        (log.node_features, RandomNegatives(log.interactions, 4)),
    ):
        with pytest.raises(DataError, match="belongs to another training"):
            train(features, negatives)


def test_torn_checkpoint_is_refused_with_what_to_do(topology, log, tmp_path):
    (tmp_path / CHECKPOINT_FILE).write_bytes(b"\x10" * 30)
    with pytest.raises(DataError, match=r"not a readable checkpoint: .* start over"):
        trained(topology, log, checkpoint=Checkpoint(tmp_path))


def test_log_has_one_line_for_each_epoch_after_a_kill_too(topology, log, tmp_path):
    for kill in (kill_at(1, 5), kill_at(2, 5), None):
        try:
            _, result = trained(topology, log, checkpoint=Checkpoint(tmp_path), progress=kill)
        except KilledError:
            continue
    assert read_epochs(tmp_path / LOG_FILE) == result.epochs
    assert [epoch.number for epoch in result.epochs] == [0, 1, 2]
    assert all(epoch.seconds > 0 for epoch in result.epochs)


def test_log_keeps_what_is_undefined(tmp_path):
    epoch = Epoch(0, 1.25, math.nan, 0.5, 3.0)
    write_epochs(tmp_path / "log.jsonl", [epoch])
    assert b"null" in (tmp_path / "log.jsonl").read_bytes()
    found = read_epochs(tmp_path / "log.jsonl")[0]
    assert_equal([found.loss, found.average_precision, found.accuracy, found.seconds], [1.25, math.nan, 0.5, 3.0])


def test_both_listeners_hear_everything():
    heard = []
    both = TrainingCallbacks(lambda *a: heard.append(a), heard.append).and_also(
        TrainingCallbacks(lambda *a: heard.append(a), heard.append)
    )
    both.on_batch(0, 1, 2, 0.5)
    both.on_epoch(Epoch(0, 1.0, 0.5, 0.5))
    assert heard == [(0, 1, 2, 0.5)] * 2 + [Epoch(0, 1.0, 0.5, 0.5)] * 2
