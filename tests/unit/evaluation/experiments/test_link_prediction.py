"""The table of link prediction at a small size: every kind of row, and figures that are those of its runs."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from stream_tgat.evaluation.baselines.rules import EdgeBank, PairRecency
from stream_tgat.evaluation.baselines.temporal import TemporalMethod
from stream_tgat.evaluation.experiments import link_prediction
from stream_tgat.evaluation.links import LinkProtocol, MethodReport
from stream_tgat.training.links import LinkSettings
from tests.unit.evaluation.baselines.small import circles

PROTOCOL = LinkProtocol(candidates=5)


def _text(table: object) -> str:
    text = io.StringIO()
    Console(width=220, file=text).print(table)
    return text.getvalue()


def test_rows_are_all_that_the_paper_has_and_the_rules_beside_them() -> None:
    names = [method.name for method in link_prediction.methods(TemporalMethod("TGAT"))]
    assert len(names) == len(set(names)) == 20
    assert {"TGAT", "Const-TGAT", "GAT+T", "GraphSAGE-LSTM", "VGAE", "CTDNE", "Node2vec", "DeepWalk"} < set(names)


def test_table_is_made_once_and_read_afterwards(tmp_path: Path) -> None:
    task = circles()
    settings = LinkSettings(epochs=1, batch_size=50)
    chosen = [EdgeBank(), TemporalMethod("TGAT", width=8, time_width=8, layers=1, settings=settings)]
    told: list[bool] = []
    for _ in range(2):
        drawn = link_prediction.make(
            task, chosen, 2, "small", tmp_path, PROTOCOL, lambda _, there: told.append(there)
        )  # fmt: skip
    assert told == [False] * 4 + [True] * 4
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "small-small-edgebank_unlimited-0.json",
        "small-small-edgebank_unlimited-1.json",
        "small-small-tgat-0.json",
        "small-small-tgat-1.json",
    ]
    assert [cell in _text(drawn) for cell in ("EdgeBank", "TGAT", "60 test interactions")] == [True] * 3


def test_figures_are_the_mean_over_the_seeds(tmp_path: Path) -> None:
    task = circles()
    (run,) = link_prediction.runs(task, [PairRecency()], 1, "small", PROTOCOL)
    report: MethodReport = run.work()
    expected = 100 * report.test.pair().average_precision
    assert f" {expected:.2f} " in _text(link_prediction.table(task, [report]))
