"""One data set in three forms is the same data set, and every command takes each of them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

from research.__main__ import main
from research.datasets.bans import load_bans
from research.datasets.loading import check, load, name_of
from research.experiments.queue import key_of
from stream_tgat.datasets.table import Columns
from stream_tgat.errors import DataError

ROWS = [(n % 3, n % 2, 10 * n, int(n % 7 == 3)) for n in range(20)]
JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"
NAMES = {form: form for form in ("folder", "jodie.csv")}
NAMES["table.csv"] = "table.csv (user,item,when,label; bipartite)"
FORMS = list(NAMES)
BY_NAME = ["--columns", "user,item,when,label", "--bipartite"]


def write(folder: Path, form: str, rows: list[tuple[object, ...]] | None = None) -> Path:
    header = {"folder": "user,item,timestamp,label", "jodie.csv": JODIE, "table.csv": "user,item,when,label"}[form]
    text = "\n".join([header, *(",".join(map(str, row)) for row in rows or ROWS)]) + "\n"
    path = folder / form
    if form != "folder":
        path.write_text(text)
        return path
    path.mkdir(parents=True)
    (path / "meta.json").write_text(json.dumps({"bipartite": True}))
    with gzip.open(path / "events.csv.gz", "wt") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_forms_tell_the_same(form: str, tmp_path: Path) -> None:
    data = load(write(tmp_path, form), Columns("user", "item", "when", "label", separate_ids=True))
    assert data.name == NAMES[form]
    assert data.bipartite
    assert data.interactions.source.tolist() == [row[0] for row in ROWS]
    assert data.interactions.destination.tolist() == [3 + row[1] for row in ROWS]
    assert data.interactions.time.tolist() == [row[2] for row in ROWS]
    assert data.label.tolist() == [row[3] for row in ROWS]


@pytest.mark.parametrize("form", FORMS)
def test_command_takes_each_form(form: str, tmp_path: Path) -> None:
    path = write(tmp_path, form)
    result = CliRunner().invoke(main, ["statistics", str(path), *BY_NAME, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "statistics.jsonl").read_text())
    assert kept["key"] == key_of(NAMES[form])
    assert (kept["result"]["interactions"], kept["result"]["nodes"], kept["result"]["positive"]) == (20, 5, 3)
    assert kept["command"].endswith(f"statistics $DATA/{form} --columns user,item,when,label --bipartite")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (Columns(), ""),
        (Columns("a", "b", "t"), " (a,b,t)"),
        (Columns(label="y"), " (src,dst,timestamp,y)"),
        (Columns(features=("x", "z")), " (features x,z)"),
        (Columns(features=()), " (features none)"),
        (Columns("a", "b", "t", features=(), separate_ids=True), " (a,b,t; features none; bipartite)"),
    ],
)
def test_results_of_other_columns_of_a_table_have_another_name(columns: Columns, told: str, tmp_path: Path) -> None:
    assert name_of(write(tmp_path, "table.csv"), columns) == f"table.csv{told}"


def test_features_of_nodes_reach_the_methods(tmp_path: Path) -> None:
    rows = [(n % 5, n % 4, 10 * n, 0) for n in range(200)]
    figures = []
    for scale in (0.0, 1.0):
        data = write(tmp_path / str(scale), "folder", rows)
        own = scale * np.random.default_rng(0).normal(size=(5, 3))
        np.savez(data / "node_features.npz", user=own.astype(np.float32), item=np.zeros((4, 1), np.float32))
        made = ["--method", "TGAT", "--seeds", "1", "--width", "8", "--layers", "1", "--epochs", "1"]
        result = CliRunner().invoke(main, ["links", str(data), *made, "--out", str(tmp_path / f"out-{scale}")])
        assert result.exit_code == 0, result.output
        kept = (tmp_path / f"out-{scale}" / "links.jsonl").read_text()
        figures.append(json.loads(kept)["result"]["test"]["pairs"])
    assert figures[0] != figures[1]


@pytest.mark.parametrize("form", FORMS)
def test_check_tells_what_is_wrong_and_ends_with_an_error(form: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(write(tmp_path, form)), *BY_NAME])
    assert result.exit_code == 0, result.output
    assert "20 interactions, 5 nodes (3 sources, 2 destinations), 0 features" in result.output
    for each in tmp_path.rglob("*"):
        if each.is_file():
            each.unlink()
    (tmp_path / "wrong").mkdir()
    wrong = write(tmp_path / "wrong", form, [*ROWS, (0, 0, "nan", 0)])
    result = CliRunner().invoke(main, ["check", str(wrong), *BY_NAME])
    assert result.exit_code == 1
    told = r"row 21: no finite time|line 22: (a number that is not finite|column '\w+' must be .+, not 'nan')"
    assert re.search(r"finite|line 22", result.output)
    with pytest.raises(DataError, match=told):
        load(wrong, Columns("user", "item", "when", "label"))


def test_check_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [*ROWS[1:], ROWS[0]]
    for form in ("folder", "table.csv"):
        report = check(write(tmp_path, form, rows), Columns("user", "item", "when"))
        assert "time before that of the row above" in [each.what for each in report.findings]


def test_wrong_number_of_columns_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(write(tmp_path, "table.csv")), "--columns", "user,item"])
    assert result.exit_code == 2
    assert "three or four names are needed, not 2" in result.output


def test_bans_are_asked_once_a_user_and_time_and_parted_by_time(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [(n % 3, n % 2, 10 * (n // 2), int(n % 7 == 3)) for n in range(40)]
    # At time 0 users 0 and 1; a second interaction of user 0 at 0, which bans.
    rows.insert(1, (0, 1, 0, 1))
    task = load_bans(write(tmp_path, "jodie.csv", rows))
    (target,) = task.targets
    labels = target.labels
    assert len(labels) == 40
    assert labels.value[labels.event == 1].tolist() == [1.0]
    time = task.interactions.time
    assert_array_equal(labels.known, time[labels.event])
    assert task.interactions.node_count == 5
    learnt, told, asked = (time[labels.event[part]] for part in (target.train, target.validation, target.test))
    assert (len(learnt), len(told), len(asked)) == (28, 6, 6)
    assert learnt.max() < told.min() <= told.max() < asked.min() == task.cutoff
