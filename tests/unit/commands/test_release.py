"""The release commands that need no broker, and which release a rollback chooses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from stream_tgat.commands.release import release_command
from stream_tgat.errors import ReleaseError
from stream_tgat.nn.model import Model
from stream_tgat.topology import Head, Kafka, Topology
from stream_tgat.training import promotion
from stream_tgat.training.promotion import Promotion, served_before
from stream_tgat.training.registry import WEIGHTS_FILE, GateNote, Release, ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from stream_tgat.wire import ModelRecord


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return Topology.model_validate(
        {
            "name": "shop",
            "kafka": Kafka(bootstrap_servers="127.0.0.1:1").model_dump(),
            "model": {"hidden": 4, "time_dim": 4, "neighbours": 2, "candidates": 3},
            "releases": {"store": str(tmp_path)},
        }
    )


def save(topology: Topology, seed: int, auc: float | None, end: int, **more: Any) -> Release:
    torch.manual_seed(seed)
    model = Model(model_config(topology)).eval()
    card = new_card(
        topology,
        model.config,
        seed=seed,
        metrics={"heads.ban.auc": auc, "links.test.average_precision": 0.9},
        manifest={"interactions": {0: (0, end), 1: (5, 70)}},
        learnt_until=86_400.0 if seed == 1 else None,
        parent="the-one-before",
        **more,
    )
    return ReleaseStore(topology.releases.store).save(model, card)


def run(topology: Topology, *arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(release_command(topology), list(arguments))


def cells(output: str) -> list[list[str]]:
    """Rows of a table, without its frame and without the column of sections."""
    lines = [line.replace("┃", "│") for line in output.splitlines()]
    return [[cell.strip() for cell in line.split("│")[2:-1]] for line in lines if line.count("│") > 2]


def difference(topology: Topology, one: Release, other: Release) -> tuple[dict[str, list[str]], str]:
    """Lines of `release diff` by what they begin with, and the sentence at its end; none is longer than 80."""
    arguments = ["diff", one.name, other.name]
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(release_command(topology), arguments)
    assert shown.exit_code == 0, shown.output
    assert [line for line in shown.output.splitlines() if len(line) > 80] == []
    lines = [re.split(r"  +", line.strip()) for line in shown.output.splitlines() if line.strip()]
    return {name: values for name, *values in lines}, " ".join(shown.output.split("\n\n")[-1].split())


def test_show_says_all_of_the_card(topology: Topology) -> None:
    release = save(topology, 1, 0.75, 1_200)
    shown = run(topology, "show", release.name[-8:])
    assert shown.exit_code == 0, shown.output
    rows = dict(cells(shown.output))
    assert rows[""] == release.name
    assert rows["heads.ban.auc"] == "0.7500"
    assert (rows["seed"], rows["parent"]) == ("1", "the-one-before")
    assert rows["learnt until"] == "1970-01-02 00:00:00"
    assert rows["hash"] == release.hash[:12]
    assert (rows["hidden"], rows["layers"]) == ("4", "2")
    assert (rows["interactions/0"], rows["interactions/1"]) == ("0 to 1,200", "5 to 70")


def compared(reason: str, passed: bool, auc: float) -> dict[str, Any]:
    note = GateNote(
        passed=passed, reason=reason, serving="r0", begin=0.0, end=86_400.0, interactions=1_500, note="all that is new"
    )
    return {"gate": note, "serving_metrics": {"heads.ban.auc": auc}, "log_since": 3_600.0}


def test_show_says_what_served_and_what_the_gate_said(topology: Topology) -> None:
    release = save(topology, 1, 0.75, 10, **compared("worse in [links]", False, 0.8))
    shown = run(topology, "show", release.name)
    found = cells(shown.output)
    rows = dict(found)
    assert (rows["decision"], rows["reason"], rows["compared with"]) == ("not passed", "worse in [links]", "r0")
    assert rows["on"] == "1,500 interactions, 1970-01-01 00:00:00 to 1970-01-02 00:00:00"
    assert rows["left out before"] == "1970-01-01 01:00:00"
    assert [value for name, value in found if name == "heads.ban.auc"] == ["0.7500", "0.8000"]


def test_diff_shows_both_releases_gates_and_what_each_was_compared_with(topology: Topology) -> None:
    one = save(topology, 1, 0.75, 10, **compared("worse", False, 0.8))
    other = save(topology, 2, 0.85, 10, **compared("better", True, 0.75))
    rows, sentence = difference(topology, one, other)
    assert rows["heads.ban.auc"] == ["0.8000", "0.7500", "-0.0500"], "the last is of what served then"
    assert rows["reason"] == ["worse", "better"]
    assert rows["decision"] == ["not passed", "passed"]
    assert "compared with" not in rows
    assert sentence == "B differs from A in release (seed, learnt until)."


def test_list_shows_each_head_once_as_of_the_newest_part(topology: Topology) -> None:
    heads = topology.model_copy(update={"heads": (Head(name="ban"), Head(name="pet"))})
    model = Model(model_config(heads)).eval()
    metrics = {
        "heads.ban.validation.auc": 0.1, "heads.ban.test.auc": 0.2, "heads.ban.newest.auc": 0.3,
        "heads.pet.test.auc": 0.4, "links.newest.average_precision": 0.5, "links.test.average_precision": 0.6,
    }  # fmt: skip
    ReleaseStore(topology.releases.store).save(model, new_card(heads, model.config, metrics=metrics))
    shown = run(heads, "list")
    assert "0.300 0.400" in shown.output
    assert "0.500" in shown.output
    assert not any(other in shown.output for other in ("0.100", "0.200", "0.600"))


def test_show_as_json_is_the_card(topology: Topology) -> None:
    release = save(topology, 1, None, 10)
    shown = run(topology, "show", release.name, "--json")
    assert json.loads(shown.output) == release.card.model_dump(mode="json")


def test_show_of_an_altered_release_is_an_error_in_a_line(topology: Topology) -> None:
    release = save(topology, 1, 0.5, 10)
    file = release.folder / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:-3])
    shown = run(topology, "show", release.name)
    assert shown.exit_code == 1
    assert shown.output.startswith("Error: ")
    assert "altered or is incomplete" in shown.output
    assert len(shown.output.splitlines()) == 1


def test_diff_shows_every_metric_and_of_the_rest_what_differs(topology: Topology) -> None:
    one, other = save(topology, 1, 0.75, 1_200), save(topology, 2, 0.5, 1_300)
    rows, sentence = difference(topology, one, other)
    assert (rows["A"], rows["B"]) == ([one.name], [other.name])
    assert rows["heads.ban.auc"] == ["0.7500", "0.5000", "-0.2500"]
    assert rows["links.test.average_precision"] == ["0.9000", "0.9000", "+0.0000"]
    assert rows["interactions/0"] == ["0 to 1,200", "0 to 1,300"]
    assert rows["seed"] == ["1", "2"]
    assert not {"interactions/1", "hidden", "parent", "topology hash"} & rows.keys()
    assert sentence == "B differs from A in release (seed, learnt until), log (interactions/0)."


def test_diff_names_the_features_and_widths_that_differ(topology: Topology) -> None:
    price = {"name": "price", "kind": "number"}
    model = topology.model.model_copy(update={"hidden": 8})
    one = save(Topology.model_validate(topology.model_dump(mode="json") | {"features": [price]}), 1, 0.5, 10)
    features = [price | {"log1p": True}, {"name": "a-long-name-of-a-feature", "kind": "flag"}]
    changed = topology.model_dump(mode="json") | {"features": features, "model": model.model_dump(mode="json")}
    other = save(Topology.model_validate(changed), 1, 0.5, 10)
    rows, sentence = difference(topology, one, other)
    assert rows["hidden"] == ["4", "8"]
    assert "price" in rows
    assert sentence == (
        "B differs from A in release (topology hash), model (edge_features, hidden), features (price, "
        "a-long-name-of-a-feature)."
    )


def test_diff_with_a_metric_that_one_does_not_define_has_no_difference(topology: Topology) -> None:
    one, other = save(topology, 1, None, 10), save(topology, 2, 0.5, 10)
    rows, _ = difference(topology, one, other)
    assert rows["heads.ban.auc"] == ["undefined", "0.5000"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "nothing", "none"], "Error: 'nothing' is not a release"),
        (["show", "nothing"], "Error: 'nothing' is not a release"),
        (["rollback"], "Error: no Kafka broker answers at 127.0.0.1:1"),
        (["promote", "nothing"], "Error: no Kafka broker answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_an_error_in_a_line(topology: Topology, arguments: list[str], message: str) -> None:
    done = run(topology, *arguments)
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1)
    assert done.output.startswith(message)


@pytest.mark.parametrize(("auc", "arguments", "served"), [(0.8, [], False), (0.8, ["--force"], True), (None, [], True)])
def test_init_takes_no_trained_release_s_place_unasked(
    topology: Topology, auc: float | None, arguments: list[str], served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(model_config(topology)).eval()
    card = new_card(topology, model.config, metrics={} if auc is None else {"heads.ban.auc": auc})
    there = ReleaseStore(topology.releases.store).save(model, card)
    log = [Promotion(0, ModelRecord(release=there.name, store=there.store, hash=there.hash))]
    promoted = []

    def promote(topology: Topology, release: Release) -> Promotion:
        promoted.append(release.name)
        return Promotion(1, ModelRecord(release=release.name, store=release.store, hash=release.hash))

    monkeypatch.setattr(promotion, "promotions", lambda topology: log)
    monkeypatch.setattr(promotion, "promote", promote)
    monkeypatch.setattr("stream_tgat.commands.release.reach", lambda kafka: None)
    done = run(topology, "init", "--seed", "3", *arguments)
    assert (done.exit_code == 0) is served, done.output
    assert len(promoted) == served
    if not served:
        assert there.name in done.output
        assert "--force" in done.output
        assert ReleaseStore(topology.releases.store).names() == [there.name]


def test_list_names_parents_so_that_they_can_be_asked_for_on_a_narrow_screen(topology: Topology) -> None:
    first = save(topology, 1, 0.75, 10)
    model = Model(model_config(topology)).eval()
    second = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, parent=first.name))
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(release_command(topology), ["list"])
    (line,) = [line for line in shown.output.splitlines() if second.name in line]
    parent = line.split("│")[2].strip()
    assert ReleaseStore(topology.releases.store).find(parent).name == first.name


def test_diff_without_a_second_name_compares_with_the_one_that_serves(topology: Topology) -> None:
    one = save(topology, 1, 0.75, 10)
    done = run(topology, "diff", one.name)
    assert done.output.startswith("Error: no Kafka broker answers")


@pytest.mark.parametrize(
    ("promoted", "before"),
    [
        ("AB", 0),
        ("ABC", 1),
        # A release promoted twice in a row: the one before both.
        ("ABB", 0),
        # What a rollback has promoted is the last one, so the next leads back.
        ("ABCB", 2),
    ],
)
def test_rollback_chooses_the_release_that_served_before(
    topology: Topology, promoted: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [Promotion(at, ModelRecord(release=name, store="s", hash="0" * 64)) for at, name in enumerate(promoted)]
    monkeypatch.setattr(promotion, "promotions", lambda topology: log)
    assert served_before(topology).version == before


@pytest.mark.parametrize(("promoted", "message"), [("", "No release on topic"), ("AA", "Only A was ever promoted")])
def test_rollback_without_a_release_before_says_so(
    topology: Topology, promoted: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [Promotion(at, ModelRecord(release=name, store="s", hash="0" * 64)) for at, name in enumerate(promoted)]
    monkeypatch.setattr(promotion, "promotions", lambda topology: log)
    with pytest.raises(ReleaseError, match=message):
        served_before(topology)
