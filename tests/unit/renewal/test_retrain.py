"""A retraining without Kafka: what is written when, who is compared with whom, and on what."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np
import orjson
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from stream_tgat.datasets.stream import StreamRecord, record
from stream_tgat.errors import ReleaseError, TrainingError, UnreachableStoreError
from stream_tgat.renewal import retrain
from stream_tgat.renewal.retrain import RetrainCallbacks, RetrainRequest, newest_part, retrain_once
from stream_tgat.topology import Topology
from stream_tgat.training import pipeline
from stream_tgat.training.epochs import TrainingCallbacks
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.log_part import LogPart, Wanted
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import Promotion
from stream_tgat.training.registry import Release, ReleaseStore, new_card
from stream_tgat.training.window import Window
from stream_tgat.wire import ModelRecord
from tests.logs import build_log

MANIFEST = {"interactions": {0: (0, 700)}, "labels": {0: (0, 700)}, "nodes": {0: (0, 0)}}


@pytest.fixture(scope="module")
def content() -> dict:
    return {
        "name": "shop",
        "model": {"hidden": 8, "time_dim": 4, "neighbours": 4, "candidates": 6, "pair_features": True},
        "features": [{"kind": "number", "name": "amount"}, {"kind": "category", "name": "kind", "values": ["a"]}],
        "heads": [{"name": "even"}],
        "training": {"epochs": 3, "batch_size": 50, "learning_rate": 0.01, "head_epochs": 3, "test_share": 0.0},
        "retrain": {"held_out": 0.2},
    }


def _records() -> list[StreamRecord]:
    """Users of a kind meet items of their kind; a label tells the kind."""
    random = np.random.default_rng(5)
    records = []
    for number, user in enumerate(random.integers(20, size=700).tolist()):
        item, time = 2 * int(random.integers(5)) + user % 2, 1e9 + 10.0 * number
        row = {"user": f"u{user}", "item": f"i{item}", "timestamp": time, "amount": float(random.random())}
        row["kind"] = "ab"[user % 2]
        records.append(record("interactions", f"u{user}", row, 0.0))
        label = {"node": f"u{user}", "label": "even", "value": 1 - user % 2, "timestamp": time}
        records.append(record("labels", f"u{user}", label, 0.0))
    assert orjson.loads(records[0].value)["user"]
    return records


RECORDS = _records()


@pytest.fixture(scope="module")
def log(content) -> TrainingLog:
    return build_log(Topology.model_validate(content), RECORDS)


@dataclass
class World:
    """What Kafka would hold."""

    topology: Topology
    log: TrainingLog
    promoted: list[Promotion] = field(default_factory=list)
    read: list[Wanted] = field(default_factory=list)

    @property
    def store(self) -> ReleaseStore:
        return ReleaseStore(self.topology.releases.store)

    def read_part(self, topology, wanted, progress) -> LogPart:
        self.read.append(wanted)
        return LogPart(self.log, wanted.manifest or MANIFEST, None, ("some records are gone",))

    def promote(self, topology, release: Release) -> Promotion:
        record = ModelRecord(release=release.name, store=release.store, hash=release.hash)
        self.promoted.append(Promotion(10 * (len(self.promoted) + 1), record))
        return self.promoted[-1]

    def serve(self, seed: int, **card) -> Release:
        """Have an untrained model serve, whatever its card says."""
        model = untrained(self.topology, seed)
        release = self.store.save(model, new_card(self.topology, model.config, seed=seed, **card))
        self.promote(self.topology, release)
        return release

    def with_rules(self, **changed) -> Topology:
        return self.topology.model_copy(update={"retrain": self.topology.retrain.model_copy(update=changed)})

    def with_training(self, **changed) -> Topology:
        return self.topology.model_copy(update={"training": self.topology.training.model_copy(update=changed)})


@pytest.fixture
def world(content, log, monkeypatch) -> World:
    topology = Topology.model_validate({**content, "releases": {"store": f"memory://{uuid.uuid4().hex}"}})
    made = World(topology, log)
    monkeypatch.setattr(retrain, "read_part", made.read_part)
    monkeypatch.setattr(retrain, "promote", made.promote)
    monkeypatch.setattr(retrain, "promotions", lambda topology: list(made.promoted))
    return made


@pytest.mark.slow
def test_first_model_serves_and_its_card_says_all(world):
    outcome = retrain_once(world.with_rules(refit=False), RetrainRequest(seed=3))
    assert (outcome.promoted, outcome.version, outcome.serving_release, outcome.serving) == (True, 10, None, None)
    assert outcome.reason.startswith("there is nothing to compare it with")
    assert outcome.notes == ("some records are gone",)
    card = world.store.find(outcome.release).card
    assert (card.seed, card.parent, card.serving_metrics) == (3, None, {})
    assert (card.measured, card.best, outcome.measured) == (None, None, None)
    assert card.manifest["interactions"] == {"0": (0, 700)}
    assert card.metrics["links.newest.average_precision"] == outcome.new.average_precision
    assert card.gate.passed
    assert (card.gate.serving, card.gate.reason) == (None, outcome.reason)


@pytest.mark.slow
def test_held_out_part_is_newer_than_all_that_either_has_learnt_from(world):
    times = world.log.interactions.time
    retrain_once(world.topology)
    second = retrain_once(world.topology, RetrainRequest(seed=1))
    assert second.part.first == 560, "a fifth is held out, and both have learnt until there"
    assert second.learnt_until == times[560]
    serving = world.serve(4, learnt_until=float(times[590]), manifest=MANIFEST, metrics={"a": 1.0})
    third = retrain_once(world.topology)
    assert (third.serving_release, third.part.first, third.part.unseen) == (serving.name, 590, True)
    late = world.serve(5, learnt_until=float(times[680]), manifest=MANIFEST, metrics={"a": 1.0})
    fourth = retrain_once(world.topology)
    assert (fourth.serving_release, fourth.part.first, fourth.part.unseen) == (late.name, 560, False)


def test_trained_model_wins_over_an_untrained_one_and_a_spoilt_one_does_not_win_over_it(world):
    first = world.serve(1)
    won = retrain_once(world.topology)
    assert (won.promoted, won.serving_release) == (True, first.name)
    assert won.new.average_precision > won.serving.average_precision + 0.1
    spoilt = retrain_once(world.with_training(learning_rate=1e-12, epochs=1, head_learning_rate=1e-12))
    assert (spoilt.promoted, spoilt.passed, spoilt.version) == (False, False, None)
    assert "it is worse in links.average_precision" in spoilt.reason
    assert world.promoted[-1].record.release == won.release
    kept = world.store.find(spoilt.release).card
    assert (kept.gate.passed, kept.gate.serving, kept.parent) == (False, won.release, won.release)
    assert kept.serving_metrics["links.newest.average_precision"] == pytest.approx(won.new.average_precision)


@pytest.mark.slow
def test_model_that_serves_other_heads_is_compared_on_the_links_and_on_the_heads_of_both(world, content):
    first = retrain_once(world.topology)
    shop = Topology.model_validate({**content, "heads": [{"name": "odd", "label": "even"}, {"name": "even"}]})
    shop = shop.model_copy(update={"releases": world.topology.releases})
    training = shop.training.model_copy(update={"learning_rate": 1e-12, "epochs": 1})
    world.log = build_log(shop, RECORDS)
    spoilt = retrain_once(shop.model_copy(update={"training": training}))
    assert (spoilt.serving_release, spoilt.passed) == (first.release, False)
    assert "it is worse in links.average_precision" in spoilt.reason
    assert any("has other heads (even): compared on the links" in note for note in spoilt.notes)
    as_good = retrain_once(shop)
    figures = {each.figure: each for each in as_good.compared}
    assert as_good.promoted
    assert np.isnan(figures["heads.odd.auc"].serving)
    assert figures["heads.even.auc"].serving == pytest.approx(first.new.heads[0].auc)


def test_dry_run_decides_and_writes_nothing(world):
    outcome = retrain_once(world.topology, RetrainRequest(dry_run=True))
    assert (outcome.passed, outcome.promoted, outcome.release, outcome.version) == (True, False, None, None)
    assert (world.store.names(), world.promoted) == ([], [])


def test_who_was_promoted_in_the_meantime_is_compared_instead(world):
    world.serve(1)
    good = retrain_once(world.topology)
    trained, _ = world.store.load(good.release)
    world.promoted.pop()
    measured = []

    def on_measure(which: str, done: int, total: int) -> None:
        if "new" not in measured:  # somebody rolls back by hand while this is measured
            world.promote(world.topology, world.store.find(good.release))
        measured.append(which)

    spoilt = world.with_training(learning_rate=1e-12, epochs=1)
    outcome = retrain_once(spoilt, RetrainRequest(seed=8), RetrainCallbacks(on_measure=on_measure))
    assert (outcome.serving_release, outcome.promoted) == (good.release, False), outcome.reason
    assert trained is not None


def test_before_promotion_may_keep_it_from_serving(world):
    class LostError(Exception):
        pass

    def lost() -> None:
        raise LostError

    with pytest.raises(LostError):
        retrain_once(world.topology, watcher=RetrainCallbacks(before_promotion=lost))
    assert world.promoted == []
    assert len(world.store.names()) == 2, "it and the model that was measured are kept, and can be promoted by hand"


def test_training_that_goes_astray_leaves_everything_as_it_was(world):
    world.serve(1)
    names = world.store.names()
    with pytest.raises(TrainingError, match=r"went astray in epoch 1.*training\.learning_rate"):
        retrain_once(world.with_training(learning_rate=1e30))
    assert world.store.names() == names
    assert len(world.promoted) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_model_that_is_not_finite_is_kept_and_says_so(world, bad, monkeypatch):
    train = retrain.pipeline.train

    def spoilt(*arguments, **settings):
        trained = train(*arguments, **settings)
        with torch.no_grad():
            for parameter in trained.model.affinity.parameters():
                parameter.fill_(bad)
        return trained

    monkeypatch.setattr(retrain.pipeline, "train", spoilt)
    outcome = retrain_once(world.topology)
    assert (outcome.promoted, outcome.passed, world.promoted) == (False, False, [])
    assert outcome.reason == "the new model gives no number for links.average_precision"
    with pytest.raises(ReleaseError, match="not finite"):
        world.store.load(outcome.release)


@pytest.mark.parametrize("damage", ["altered", "other topology", "gone"])
def test_what_can_no_longer_serve_is_passed_over_for_what_workers_fall_back_to(world, content, damage):
    older = world.serve(1)
    if damage == "other topology":
        wider = Topology.model_validate(
            {
                **content,
                "model": {**content["model"], "hidden": 12},
                "releases": {"store": world.topology.releases.store},
            }
        )
        model = untrained(wider, 1)
        world.promote(wider, world.store.save(model, new_card(wider, model.config)))
    else:
        newer = world.serve(2)
        system, path = MemoryFileSystem(), f"{newer.store.removeprefix('memory:/')}/{newer.name}/model.safetensors"
        if damage == "gone":
            system.rm_file(path)
        else:
            system.pipe_file(path, system.cat_file(path)[:-5])
    outcome = retrain_once(world.topology)
    assert (outcome.serving_release, outcome.promoted) == (older.name, True)
    assert any(note.startswith("model 20 cannot serve: Release") for note in outcome.notes)


def test_store_that_cannot_be_asked_says_nothing_about_what_serves(world, monkeypatch):
    world.serve(1)
    down = lambda *_, **__: (_ for _ in ()).throw(ConnectionError("down"))  # noqa: E731
    monkeypatch.setattr(MemoryFileSystem, "cat_file", down)
    with pytest.raises(UnreachableStoreError):
        retrain_once(world.topology)
    assert len(world.promoted) == 1


def test_window_is_that_of_the_topology_unless_another_is_asked_for(world):
    rules = world.topology.retrain.model_copy(update={"window": "90d", "window_interactions": 700})
    topology = world.topology.model_copy(update={"retrain": rules})
    assert newest_part(topology) == Wanted(window=Window(seconds=90 * 86_400.0, interactions=700))
    assert newest_part(world.topology) == Wanted()
    other = Wanted(window=Window(since=5.0))
    retrain_once(topology, RetrainRequest(dry_run=True))
    retrain_once(topology, RetrainRequest(dry_run=True, log=other))
    assert world.read == [newest_part(topology), other]


def test_outcome_can_be_written_as_json(world):
    told = orjson.loads(orjson.dumps(retrain_once(world.topology)))
    assert told["promoted"] is True
    assert told["compared"][0]["serving"] is None


def test_what_serves_has_learnt_from_the_newest_part_too_and_its_card_says_what_was_measured(world):
    told = []
    watcher = RetrainCallbacks(refitting=TrainingCallbacks(on_batch=lambda epoch, *_: told.append(epoch)))
    outcome = retrain_once(world.topology, watcher=watcher)
    assert outcome.promoted, outcome.reason
    (serving, card), (twin, its) = ((name, world.store.find(name).card) for name in (outcome.release, outcome.measured))
    assert world.promoted[-1].record.release == serving != twin
    times = world.log.interactions.time
    assert (its.learnt_until, card.learnt_until) == (times[560], np.nextafter(times[-1], np.inf))
    assert (card.measured, its.measured, card.metrics, card.gate) == (twin, None, its.metrics, its.gate)
    assert max(told) == its.metrics["links.best_epoch"], "as many epochs as validation chose"
    mine, other = (world.store.load(name)[0].state_dict() for name in (serving, twin))
    assert any(not torch.equal(mine[name], other[name]) for name in mine)


@pytest.mark.slow
def test_same_log_and_seed_give_the_same_refit(world, content, log, monkeypatch):
    weights = []
    for _ in range(2):
        store = {"store": f"memory://{uuid.uuid4().hex}"}
        again = World(Topology.model_validate({**content, "releases": store}), log)
        monkeypatch.setattr(retrain, "promote", again.promote)
        monkeypatch.setattr(retrain, "promotions", lambda _, again=again: list(again.promoted))
        release = again.store.find(retrain_once(again.topology).release)
        assert release.card.measured
        path = f"{release.store.removeprefix('memory:/')}/{release.name}/model.safetensors"
        weights.append(MemoryFileSystem().cat_file(path))
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_refitted_release_is_compared_as_its_twin_on_all_that_is_new_to_both(world):
    first = retrain_once(world.topology)
    second = retrain_once(world.topology, RetrainRequest(seed=1))
    assert second.serving_release == first.release
    assert (second.part.first, second.part.unseen) == (560, True), "the twin has not learnt from the newest fifth"
    assert second.serving == first.new, "the figures are those of the twin"


@pytest.mark.slow
def test_refit_whose_twin_is_gone_is_compared_itself_and_that_is_said(world):
    first = retrain_once(world.topology)
    system, path = MemoryFileSystem(), f"{world.topology.releases.store.removeprefix('memory:/')}/{first.measured}"
    system.rm(path, recursive=True)
    second = retrain_once(world.topology, RetrainRequest(seed=1, dry_run=True))
    assert second.part.unseen is False
    assert any(f"{first.measured}, as which it was measured, is missing" in note for note in second.notes)


def test_refit_that_has_gone_astray_does_not_serve_but_the_measured_model_does(world, monkeypatch):
    def spoilt(topology, log, *_, **__):
        return pipeline.Refitted(untrained(topology, 9), float(np.nextafter(log.interactions.time[-1], np.inf)))

    monkeypatch.setattr(retrain.pipeline, "refit", spoilt)
    outcome = retrain_once(world.topology)
    assert (outcome.promoted, outcome.measured) == (True, None)
    assert world.store.find(outcome.release).card.learnt_until == world.log.interactions.time[560]
    assert any("not its refit on all of the log" in note for note in outcome.notes)


@pytest.mark.slow
def test_new_models_are_held_against_the_best_release_and_not_only_against_what_serves(world):
    best = retrain_once(world.topology)
    spoils = {"learning_rate": 1e-12, "epochs": 1, "head_learning_rate": 1e-12}
    spoilt = retrain_once(world.with_training(**spoils))
    assert not spoilt.passed
    assert world.store.find(spoilt.release).card.best == best.release
    world.promote(world.topology, world.store.find(spoilt.release))  # somebody insists
    as_bad = retrain_once(world.with_training(**spoils))
    assert (as_bad.serving_release, as_bad.passed) == (spoilt.release, False), "no worse than what serves"
    assert as_bad.reason.startswith(f"against {best.release}, the best release of the last 180d, it is worse in links")
    forgotten = retrain_once(world.with_rules(best_of="1s"), RetrainRequest(dry_run=True))
    assert "the best release" not in forgotten.reason
    world.serve(7, best="20200101-000000-00000000", learnt_until=1.0, manifest=MANIFEST, metrics={"a": 1.0})
    gone = retrain_once(world.topology, RetrainRequest(dry_run=True))
    assert any("not compared with 20200101-000000-00000000, the best release so far" in note for note in gone.notes)


def test_model_that_is_worse_than_the_best_simple_rules_is_kept_unless_the_topology_says_otherwise(world):
    spoilt = world.with_training(epochs=1, learning_rate=1e-12, head_learning_rate=1e-12)
    kept = retrain_once(spoilt)
    assert (kept.promoted, kept.passed, kept.rules.verdict, world.promoted) == (False, False, "worse", [])
    assert kept.reason.startswith("it is worse than the best simple rules, or else it would serve: there is nothing to")
    assert kept.rules.sentence.startswith("Worse than the best simple rules by ")
    card = world.store.find(kept.release).card
    assert (card.rules, card.gate.reason) == (kept.rules, kept.reason)
    rules = spoilt.retrain.model_copy(update={"when_worse_than_rules": "promote"})
    asked_for = retrain_once(spoilt.model_copy(update={"retrain": rules}))
    assert (asked_for.promoted, asked_for.rules.verdict) == (True, "worse")
    assert world.store.find(asked_for.release).card.rules == asked_for.rules, "of the refit, too"


@pytest.mark.slow
def test_first_trained_release_is_the_best_and_later_ones_name_it_until_one_is_better(world):
    asked_for = world.topology.retrain.model_copy(update={"when_worse_than_rules": "promote"})
    spoilt = world.with_training(epochs=1, learning_rate=1e-12).model_copy(update={"retrain": asked_for})
    first = retrain_once(spoilt)
    assert world.store.find(first.release).card.best is None
    same = retrain_once(spoilt)
    assert same.promoted, same.reason
    assert world.store.find(same.release).card.best == first.release
    better = retrain_once(world.topology)
    assert better.promoted, better.reason
    assert world.store.find(better.release).card.best is None
