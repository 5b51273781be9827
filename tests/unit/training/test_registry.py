"""The release store: complete or not there, checked on load, nothing altered passes."""

import json
import re
from pathlib import Path

import pytest
import torch

from stream_tgat.errors import ReleaseError
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology
from stream_tgat.training.registry import CARD_FILE, WEIGHTS_FILE, ReleaseStore, check_fits, new_card
from stream_tgat.training.shape import model_config


def make_topology(**model):
    return Topology.model_validate(
        {
            "name": "shop",
            "graph": {"node_features": 3},
            "model": {"hidden": 8, "time_dim": 4, "neighbours": 3, "candidates": 5, **model},
            "features": [{"kind": "number", "name": "price"}],
            "heads": [{"name": "loyal"}, {"name": "pet"}],
        }
    )


def make_model(topology, seed=1):
    torch.manual_seed(seed)
    model = Model(model_config(topology)).eval()
    model.calibration.copy_(torch.tensor([[0.5, -1.0], [2.0, 0.25]]))
    model.thresholds.copy_(torch.tensor([0.2, 0.7]))
    return model


@pytest.fixture
def store(tmp_path):
    return ReleaseStore(tmp_path / "releases")


def save(store, topology=None, seed=1):
    topology = topology or make_topology()
    model = make_model(topology, seed)
    return model, store.save(
        model, new_card(topology, model.config, metrics={"ap": 0.5, "auc": float("nan")}, seed=seed)
    )


def test_release_loaded_again_gives_the_same_predictions(store):
    model, release = save(store)
    loaded, again = store.load(release.name)
    embedding, edge = torch.randn(7, 8), torch.randn(7, 1)
    assert torch.equal(model.predict(embedding, edge), loaded.predict(embedding, edge))
    assert torch.equal(loaded.thresholds, torch.tensor([0.2, 0.7]))
    assert not loaded.training
    assert again.card == release.card
    assert again.card.config == model.config


def test_release_with_altered_weights_is_refused(store):
    _, release = save(store)
    file = release.folder / WEIGHTS_FILE
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(ReleaseError, match=r"altered or is incomplete.*release list"):
        store.load(release.name)


def test_card_from_before_it_said_until_when_it_learnt_keeps_its_hash(store):
    _, release = save(store)
    file = release.folder / CARD_FILE
    card = json.loads(file.read_text())
    del card["learnt_until"]
    file.write_text(json.dumps(card))
    assert store.load(release.name)[1].card.learnt_until is None


def test_time_until_which_a_release_learnt_is_kept_and_hashed(store):
    topology = make_topology()
    model = make_model(topology)
    release = store.save(model, new_card(topology, model.config, learnt_until=1e9 + 1 / 3))
    assert store.load(release.name)[1].card.learnt_until == 1e9 + 1 / 3
    file = release.folder / CARD_FILE
    card = json.loads(file.read_text())
    del card["learnt_until"]
    file.write_text(json.dumps(card))
    with pytest.raises(ReleaseError, match="altered or is incomplete"):
        store.load(release.name)


def test_release_with_truncated_weights_is_refused(store):
    _, release = save(store)
    file = release.folder / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ReleaseError, match="altered or is incomplete"):
        store.load(release.name)


@pytest.mark.parametrize(("key", "value"), [("seed", 2), ("parent", "other"), ("features_hash", "0" * 64)])
def test_release_with_altered_card_is_refused(store, key, value):
    _, release = save(store)
    file = release.folder / CARD_FILE
    card = json.loads(file.read_text())
    card[key] = value
    file.write_text(json.dumps(card))
    with pytest.raises(ReleaseError, match="altered or is incomplete"):
        store.load(release.name)


def test_release_whose_card_is_cut_off_is_refused_with_its_file(store):
    _, release = save(store)
    file = release.folder / CARD_FILE
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ReleaseError, match=re.escape(str(file))):
        store.load(release.name)


@pytest.mark.parametrize(
    ("changed", "what"), [({"format": 0}, "format"), ({"format": 2}, "format"), ({"colour": "red"}, "colour")]
)
def test_release_of_another_version_is_refused_with_that_version(store, changed, what):
    _, release = save(store)
    file = release.folder / CARD_FILE
    card = json.loads(file.read_text())
    file.write_text(json.dumps(card | changed | {"code_version": "9.8.7"}))
    with pytest.raises(
        ReleaseError, match=rf"another version of stream-tgat \(9\.8\.7\).*\({what}\): run that version"
    ):
        store.load(release.name)


def test_release_without_weights_is_refused(store):
    _, release = save(store)
    (release.folder / WEIGHTS_FILE).unlink()
    with pytest.raises(ReleaseError, match=WEIGHTS_FILE):
        store.load(release.name)


def test_release_other_than_the_promoted_one_is_refused(store):
    _, release = save(store)
    with pytest.raises(ReleaseError, match="was promoted"):
        store.load(release.name, expected_hash="0" * 64)
    assert store.load(release.name, expected_hash=release.hash)[1].hash == release.hash


def test_write_that_fails_leaves_nothing_behind(store, monkeypatch):
    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.rename", fail)
    with pytest.raises(OSError, match="disk full"):
        save(store)
    assert store.names() == []
    assert list(Path(store.address).iterdir()) == []


def test_half_written_release_is_not_listed(store):
    _, release = save(store)
    partial = Path(store.address) / ".20990101-000000-ffffffff.abcd"
    partial.mkdir()
    (partial / CARD_FILE).write_text("{}")
    assert store.names() == [release.name]


def test_find_takes_an_unambiguous_part_of_a_name_and_lists_what_there_is(store):
    _, first = save(store, seed=1)
    _, second = save(store, seed=2)
    assert store.find(first.name[-8:]).name == first.name
    with pytest.raises(ReleaseError, match="fits several"):
        store.find(first.name[:4])
    with pytest.raises(ReleaseError, match=second.name):
        store.find("nothing")


def test_store_that_does_not_exist_has_no_releases(tmp_path):
    assert ReleaseStore(tmp_path / "none").names() == []


def test_release_of_another_shape_is_refused_with_the_key(store):
    _, release = save(store)
    check_fits(release, make_topology())
    with pytest.raises(ReleaseError, match=r"neighbours is 3 in the release and 4 in the topology.*train"):
        check_fits(release, make_topology(neighbours=4))


def test_release_trained_on_other_features_is_refused(store):
    _, release = save(store)
    other = Topology.model_validate(
        {**make_topology().model_dump(mode="json"), "features": [{"kind": "number", "name": "price", "log1p": True}]}
    )
    with pytest.raises(ReleaseError, match="features"):
        check_fits(release, other)
