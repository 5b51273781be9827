"""Training as a whole: what comes out, what is refused, what the newest part may not influence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.epochs import TrainingCallbacks
from stream_tgat.training.heads import HeadSettings
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.pipeline import head_settings, limited, link_settings, train, untrained
from stream_tgat.training.registry import ReleaseStore, new_card
from tests.logs import build_log

LINKS = LinkSettings(epochs=2, batch_size=100, learning_rate=0.01)
HEADS = HeadSettings(epochs=5)


def with_test_part(topology, **training):
    training = topology.training.model_copy(update={"test_share": 0.2, **training})
    return topology.model_copy(update={"training": training})


def test_trained_model_comes_with_its_figures_and_survives_the_store(topology, log, tmp_path):
    trained = train(topology, log, LINKS, HEADS)
    figures = trained.figures()
    assert figures["heads.even.validation.auc"] > 0.6
    assert figures["links.validation.average_precision"] > 0.5
    assert np.isnan(figures["heads.never.validation.auc"])
    assert not trained.model.training
    assert trained.learnt_until > log.interactions.time[-1], "all of it, where there is no test part"
    release = ReleaseStore(tmp_path).save(trained.model, new_card(topology, trained.model.config, metrics=figures))
    loaded, _ = ReleaseStore(tmp_path).load(release.name)
    inputs = torch.randn(5, 17)
    assert torch.equal(
        loaded.predict(inputs[:, :16], inputs[:, 16:]), trained.model.predict(inputs[:, :16], inputs[:, 16:])
    )
    assert loaded.thresholds[0] < 1.0


@pytest.mark.parametrize("fine_tuning_epochs", [0, 3])
def test_test_part_is_measured_and_has_no_say(topology, log, fine_tuning_epochs):
    topology = with_test_part(topology, fine_tuning_epochs=fine_tuning_epochs)
    begin = round(595 * 0.8)  # answers come after 50 s, and the five newest interactions are newer than that
    labels = log.labels["even"]
    flipped = replace(labels, value=np.where(labels.event >= begin, 1 - labels.value, labels.value))
    whole = log.interactions
    shuffled = np.concatenate([np.arange(begin), np.arange(begin, len(whole))[::-1]])
    changed = Interactions(whole.source[shuffled], whole.destination[shuffled], whole.time, whole.edge[shuffled])
    one = train(topology, log, LINKS, HEADS)
    other = train(topology, replace(log, labels={**log.labels, "even": flipped}, interactions=changed), LINKS, HEADS)
    assert one.head_part == "test"
    assert one.learnt_until == other.learnt_until == log.interactions.time[begin]
    assert one.head_metrics["even"].count == sum(labels.event >= begin)
    assert {part.part for part in one.link_metrics} == {"validation", "test"}
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name
    assert one.head_metrics["even"].auc != other.head_metrics["even"].auc


def test_log_with_next_to_nothing_is_refused_with_what_to_do(topology, records):
    log = build_log(topology, records[:25])
    with pytest.raises(DataError, match=r"11 usable interactions.*release init"):
        train(topology, log, LINKS, HEADS)


def test_log_without_labels_still_gives_an_encoder(topology, log):
    none = {name: labels.select(np.zeros(len(labels), bool)) for name, labels in log.labels.items()}
    bare = replace(log, labels=none)
    trained = train(topology, bare, LINKS, HEADS)
    assert not any(head.trained for head in trained.heads)
    assert trained.model.thresholds.tolist() == [1.0, 1.0]
    inputs = torch.randn(5, 17)
    assert torch.isfinite(trained.model.predict(inputs[:, :16], inputs[:, 16:])).all()


def test_threshold_of_the_topology_wins(topology, log):
    heads = (topology.heads[0].model_copy(update={"threshold": 0.125}), topology.heads[1])
    trained = train(topology.model_copy(update={"heads": heads}), log, LINKS, HEADS)
    assert trained.model.thresholds.tolist() == [0.125, 1.0]


def test_untrained_model_is_a_function_of_its_seed(topology):
    one, same, other = (untrained(topology, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    assert untrained(topology, 1).thresholds.tolist() == [1.0, 1.0]


def test_settings_come_from_the_topology_and_the_command_line_wins(topology):
    assert link_settings(topology).batch_size == 50
    assert link_settings(topology).epoch_events is None
    assert limited(link_settings(topology), None, None) == link_settings(topology)
    assert (limited(link_settings(topology), 9, 7).epochs, limited(link_settings(topology), 9, 7).seed) == (9, 7)
    assert head_settings(topology).epochs == 20
    assert head_settings(topology).precision is None
    precise = topology.model_copy(update={"training": topology.training.model_copy(update={"precision": 0.9})})
    assert head_settings(precise).precision == 0.9


@pytest.mark.parametrize(
    ("wanted", "dropout", "expected"),
    [("auto", 0.0, "recent"), ("auto", 0.3, "uniform"), ("inverse_timespan", 0.3, "inverse_timespan")],
)
def test_training_samples_uniformly_where_neighbours_are_hidden_unless_told_otherwise(
    topology, wanted, dropout, expected
):
    training = topology.training.model_copy(update={"sampling": wanted, "neighbour_dropout": dropout})
    settings = link_settings(topology.model_copy(update={"training": training}))
    assert (settings.sampling, settings.neighbour_dropout) == (expected, dropout)


def test_affinity_is_the_topologys_choice(topology):
    model = topology.model.model_copy(update={"pair_features": True})
    assert untrained(topology.model_copy(update={"model": model}), 0).affinity.network.weight_0.shape[0] == 2 * 16 + 6
    model = topology.model.model_copy(update={"affinity": "inner"})
    assert untrained(topology.model_copy(update={"model": model}), 0).affinity.network is None


def test_answers_teach_the_encoder_where_the_topology_says_so(topology, log):
    told = []
    progress = TrainingCallbacks(on_batch=lambda epoch, *_: told.append(epoch))
    plain = train(with_test_part(topology), log, LINKS, HEADS)
    taught = train(with_test_part(topology, fine_tuning_epochs=3), log, LINKS, HEADS, progress)
    assert plain.tuned.aucs == ()
    assert "fine_tuning.auc" not in plain.figures()
    assert len(taught.tuned.aucs) == 3
    assert taught.figures()["fine_tuning.auc"] >= taught.figures()["fine_tuning.auc_before"]
    assert taught.links == plain.links, "links come first, and as without"
    assert sorted(set(told)) == list(range(len(taught.links.epochs) + 3)), "later epochs are counted on"
