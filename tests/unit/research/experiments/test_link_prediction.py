"""The table of link prediction at a small size: every kind of row, and figures that are those of its runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from research.baselines.autoencoder import GraphAutoencoder
from research.baselines.skipgram import CTDNE, Node2vec
from research.baselines.temporal import TemporalMethod
from research.experiments import link_prediction
from research.experiments.queue import fill
from stream_tgat.evaluation.link_prediction import LinkMethod, LinkProtocol, MethodReport
from stream_tgat.evaluation.link_prediction.rules import DestinationRecency, EdgeBank, PairRecency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.checkpoint import Checkpoint, TrainingSnapshot
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.negatives import HistoricalNegatives
from tests.unit.research.baselines.small import circles

PROTOCOL = LinkProtocol(candidates=5)
FEW_STEPS = {"epochs": 2, "hidden": 4}
SHORT_WALKS = {"walks_per_node": 2, "walk_length": 4}


def _text(table: object) -> str:
    text = io.StringIO()
    Console(width=220, file=text).print(table)
    return text.getvalue()


def test_rows_are_all_that_the_paper_has_and_the_rules_beside_them() -> None:
    names = [method.name for method in link_prediction.methods(TemporalMethod("TGAT"))]
    assert len(names) == len(set(names)) == 20
    assert {"TGAT", "Const-TGAT", "GAT+T", "GraphSAGE-LSTM", "VGAE", "CTDNE", "Node2vec", "DeepWalk"} < set(names)


LEARNS_OF_NEGATIVES = [
    method
    for method in link_prediction.methods(
        TemporalMethod(
            "TGAT",
            activity=True,
            width=4,
            time_width=4,
            layers=1,
            neighbours=2,
            settings=LinkSettings(epochs=1, historical_share=0.3),
        )
    )
    if not isinstance(method, EdgeBank | DestinationRecency | PairRecency)
]


@pytest.mark.parametrize("method", LEARNS_OF_NEGATIVES, ids=lambda method: str(method.name))
def test_every_row_learns_from_the_same_kinds_of_negatives(method: LinkMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = "torch_geometric" if isinstance(method, GraphAutoencoder) else "gensim"
    if isinstance(method, GraphAutoencoder | Node2vec | CTDNE):
        pytest.importorskip(needs, reason=f"{needs} is not installed (extra: research)")
        method = replace(method, **(FEW_STEPS if isinstance(method, GraphAutoencoder) else SHORT_WALKS))
    shares, put = [], HistoricalNegatives.put

    def noted(
        self: HistoricalNegatives,
        drawn: NDArray[np.int64],
        happened: Interactions,
        share: float,
        place: tuple[int, ...],
    ) -> NDArray[np.int64]:
        shares.append(share)
        return put(self, drawn, happened, share, place)

    monkeypatch.setattr(HistoricalNegatives, "put", noted)
    method.fit(circles(160), 0)
    assert set(shares) == {0.3}


def test_table_is_made_once_and_read_afterwards(tmp_path: Path) -> None:
    task = circles()
    settings = LinkSettings(epochs=1, batch_size=50)
    chosen = [EdgeBank(), TemporalMethod("TGAT", width=8, time_width=8, layers=1, settings=settings)]
    told: list[bool] = []
    for _ in range(2):
        drawn = link_prediction.make(
            task, chosen, 2, "small", tmp_path / "table", PROTOCOL, lambda _, there: told.append(there)
        )  # fmt: skip
    assert told == [False] * 4 + [True] * 4
    lines = (tmp_path / "table.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == [
        "small-small-edgebank_unlimited-0",
        "small-small-edgebank_unlimited-1",
        "small-small-tgat-0",
        "small-small-tgat-1",
    ]
    assert [cell in _text(drawn) for cell in ("EdgeBank", "TGAT", "60 test interactions")] == [True] * 3


def test_killed_training_goes_on_and_ends_with_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, saves, save = circles(200), [], Checkpoint.save
    settings = LinkSettings(epochs=3, batch_size=50)
    method = TemporalMethod("TGAT", width=8, time_width=8, layers=1, neighbours=5, settings=settings)

    def noted(self: Checkpoint, identity: str, snapshot: TrainingSnapshot) -> None:
        save(self, identity, snapshot)
        saves.append(len(snapshot.epochs))
        if killed and len(saves) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", noted)
    reports, killed = [], False
    for folder in (tmp_path / "whole", tmp_path / "killed"):
        (run,) = link_prediction.runs(task, [method], 1, "small", folder, PROTOCOL)
        if killed:
            with pytest.raises(KeyboardInterrupt):
                fill(folder, MethodReport, [run])
        reports += fill(folder, MethodReport, [run])
        assert saves == [1, 2, 3]
        saves.clear()
        killed = True
    # As text: figures that were not asked for are not numbers, and equal nothing.
    assert repr(reports[0]) == repr(reports[1])


def test_figures_are_the_mean_over_the_seeds(tmp_path: Path) -> None:
    task = circles()
    (run,) = link_prediction.runs(task, [PairRecency()], 1, "small", tmp_path, PROTOCOL)
    report: MethodReport = run.work()
    expected = 100 * report.test.pair().average_precision
    assert f" {expected:.2f} " in _text(link_prediction.table(task, [report]))
