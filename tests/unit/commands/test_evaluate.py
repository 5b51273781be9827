"""`evaluate` on a file, without a broker: tables, JSON and plots of one release; what is missing is said first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from stream_tgat.commands.evaluate import evaluate_command
from stream_tgat.topology import Kafka, Topology
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.registry import Release, ReleaseStore, new_card

NOBODY = Kafka(bootstrap_servers="127.0.0.1:1")
MODEL = {"hidden": 8, "time_dim": 4, "neighbours": 4, "candidates": 6}
COLUMNS = ("--columns", "customer,product,when,back")


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    content = {"name": "shop", "model": MODEL, "features": [{"kind": "number", "name": "price"}]}
    content |= {"heads": [{"name": "returns"}], "releases": {"store": str(tmp_path / "releases")}}
    return Topology.model_validate(content).model_copy(update={"kafka": NOBODY})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    random = np.random.default_rng(2)
    columns = {
        "customer": [f"c{n}" for n in random.integers(9, size=200)],
        "product": random.integers(6, size=200),
        "when": 1e9 + np.arange(200) * 60.0,
        "price": random.random(200),
        "back": random.integers(2, size=200),
    }
    parquet.write_table(pa.table(columns), tmp_path / "events.parquet")
    return tmp_path / "events.parquet"


def save(topology: Topology, learnt_until: float | None = None) -> Release:
    model = untrained(topology, 4)
    model.thresholds.fill_(0.25)
    return ReleaseStore(topology.releases.store).save(
        model, new_card(topology, model.config, learnt_until=learnt_until)
    )


def run(topology: Topology, *arguments: str) -> Result:
    """As in a terminal of 80 columns, which no figure may leave; only paths and errors are longer."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(evaluate_command(topology), list(arguments), catch_exceptions=False)
    if shown.exit_code == 0:
        assert [line for line in shown.stdout.splitlines() if len(line.rstrip()) > 80 and "/" not in line] == []
    return shown


def test_release_is_measured_on_a_file_beside_the_rules(topology: Topology, file: Path, tmp_path: Path) -> None:
    release = save(topology, learnt_until=1e9 + 150 * 60.0)
    out, plots = tmp_path / "new" / "figures.json", tmp_path / "plots"
    result = run(
        topology, "--release", release.name[-8:], "--data", str(file), *COLUMNS, "--ranked", "10", "--candidates", "5",
        "--out", str(out), "--plots", str(plots),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    assert "on 50 of 200 interactions" in told
    assert "newer than what the release learnt from" in told
    report = orjson.loads(out.read_bytes())
    assert (report["release"], report["part"]["count"], report["part"]["unseen"]) == (release.name, 50, True)
    assert report["labels"] == {"returns": 50}
    methods = [row["method"] for row in report["links"]]
    assert methods[0] == "release"
    for method in methods:
        assert method in result.output
    (head,) = report["heads"]
    assert "returns: 50 answers about " in result.output
    assert f"AUC {head['auc']['estimate']:.3f} (95 %: {head['auc']['low']:.2f}-" in result.output
    assert f"{head['alerts']['count']} alerts above 0.250" in result.output
    assert (head["head"], head["answers"], head["alerts"]["threshold"]) == ("returns", 50, 0.25)
    assert head["auc"]["low"] <= head["auc"]["estimate"] <= head["auc"]["high"]
    assert (plots / "reliability-returns.svg").read_text().startswith("<?xml")


def test_same_seed_gives_the_same_figures(topology: Topology, file: Path, tmp_path: Path) -> None:
    release = save(topology)
    written = []
    for number in range(2):
        out = tmp_path / f"{number}.json"
        assert run(
            topology, "--release", release.name, "--data", str(file), *COLUMNS, "--ranked", "0", "--out", str(out)
        ).exit_code == 0  # fmt: skip
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_measuring_what_the_release_knows_is_said(topology: Topology, file: Path) -> None:
    release = save(topology, learnt_until=1e9 + 150 * 60.0)
    arguments = ("--release", release.name, "--data", str(file), *COLUMNS, "--ranked", "0")
    known = run(topology, *arguments, "--since", "2001-09-09").output
    assert "flatters" in known
    assert " ".join(known.split()).endswith("It may have learnt from these, which flatters it."), "the last word, too"
    assert "flatters" not in run(topology, *arguments, "--since", str(1e9 + 160 * 60.0)).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no Kafka broker answers"),
        (("--release", "none", "--data", "FILE"), "'none' is not a release"),
        (("--since", "soon", "--data", "FILE", "--release", "x"), "--since"),
        (("--data", "FILE", "--release", "REAL", "--columns", "a,b"), "three or four names are needed, not 2"),
        (("--data", "FILE", "--release", "REAL"), "has no column 'user'"),
    ],
)
def test_what_is_missing_is_said_in_a_line(
    topology: Topology, file: Path, arguments: tuple[str, ...], message: str
) -> None:
    names = {"FILE": str(file), "REAL": save(topology).name}
    result = run(topology, *(names.get(each, each) for each in arguments))
    assert result.exit_code in (1, 2)
    assert message in result.output.replace("\n", " ")


def test_plots_without_matplotlib_are_refused_before_anything_else(
    topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_tgat.evaluation.reliability_plot.find_spec", lambda _: None)
    result = run(topology, "--plots", str(tmp_path))
    assert result.exit_code == 1
    assert "stream-tgat[plots]" in result.output
