"""From a stream to the page: every step has its figures, what is there is not made again, and the commands refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.experiments import attention, retraining, staleness
from research.experiments.ablations import Choice
from research.experiments.attention import AttentionReport
from research.experiments.queue import ResultOrigin, ResultRecord, Run, fill
from research.labels.trees import event_and_user
from research.page.pages import filled
from research.page.results import Results, read_results
from research.page.retraining import retraining_tables, summary
from research.page.staleness import staleness_section
from research.prequential import (
    FirstEncoder,
    NewModel,
    Policy,
    StepAnswers,
    StepHeadFigures,
    StepReport,
    Trees,
    answers,
)
from research.prequential.staleness import StaleBin, StalenessReport
from stream_tgat.evaluation.bootstrap import Interval
from stream_tgat.training.checkpoint import Checkpoint, TrainingSnapshot
from tests.unit.research.baselines.small import circles
from tests.unit.research.prequential.drifting import BOOSTED, ENCODER, HEADS, stream

MADE_BY = ResultOrigin("make it")


def a_switch(folder: Path) -> Run[Any]:
    two_layers = replace(ENCODER, layers=2, candidates=5)
    return staleness.run(stream(drifts=True), two_layers, (0, 0), 100 / 86_400, "s", folder, HEADS, 10)


@pytest.mark.slow
def test_page_of_a_small_stream_has_tables_and_figure(tmp_path: Path) -> None:
    of, folder = stream(drifts=True), tmp_path / "results"
    makers = (NewModel(ENCODER, HEADS), FirstEncoder(ENCODER, HEADS), Trees(BOOSTED), Trees(BOOSTED, as_first=True))
    told: list[bool] = []

    def again() -> int:
        told.clear()
        reports = retraining.make(
            of, makers, 1, "s", folder / "retraining", tmp_path / "scores", lambda _, there: told.append(there),
            MADE_BY, 10,
        )  # fmt: skip
        return len(reports)

    # Three policies of TGAT, one of its heads, two of trees and one of forgetting ones: four steps and two sums each.
    assert again() == 7 * 6
    assert not any(told)
    assert again() == 7 * 6
    assert all(told)
    fill(folder / "staleness", StalenessReport, [a_switch(folder / "staleness")], origin=MADE_BY)
    text = filled("{{ retraining }}\n\n{{ staleness }}\n", read_results(folder, folder))
    assert "(retraining-drifting-1.svg)" in text
    steps, policies, ages = [part for part in text.split("\n\n") if part.startswith("| ")][:3]
    assert steps.count("\n") == 5
    assert "| +0.00 [+0.00, +0.00] |" in steps.splitlines()[2]
    assert policies.count("\n") == 8
    assert f"| TGAT: {Policy.GATE} | 1 |" in policies
    assert ages.count("\n") == 4
    assert (folder / "retraining-drifting-1.svg").exists()
    assert "| 0 | " in text
    assert "AUC re-encoded" in text


def summed(policy: Policy, low: float, high: float) -> list[ResultRecord[StepReport]]:
    """A step, and all later ones, apart and pooled, with a gain in the middle of an interval."""
    found = Interval((low + high) / 2, low, high, 0.01, 10)
    head = StepHeadFigures("told", 100, 0.1, 0.7, 0.3)

    def report(steps: tuple[int, ...], pooled: bool) -> StepReport:
        return StepReport(
            "some", "TGAT", policy, steps, tuple(100.0 * step for step in steps), pooled, 1, 50, 5, (0,), 9.0, (head,),
            found, found,
        )  # fmt: skip

    return [
        ResultRecord("run it", "cpu", "Some CPU", 1.0, report(*each))
        for each in (((1,), False), ((1, 2), False), ((1, 2), True))
    ]


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.01, 0.03, "gains, +2.00 [+1.00, +3.00]"),
        (-0.01, 0.03, "neither gains nor loses for certain, +1.00 [-1.00, +3.00]"),
        (-0.03, -0.01, "loses, -2.00 [-3.00, -1.00]"),
    ],
)
def test_gain_is_claimed_only_where_its_interval_leaves_zero_out(low: float, high: float, says: str) -> None:
    records = [*summed(Policy.FIRST, 0.0, 0.0), *summed(Policy.SCHEDULE, low, high)]
    (made,) = retraining_tables(Results(Path("nowhere"), [], [], [], [], retraining=records))
    assert summary(made).endswith(f" TGAT, retrained: {says}.")
    assert len(made.of("TGAT", Policy.SCHEDULE)) == 1
    other = [replace(record, command="run it otherwise") for record in records]
    assert len(retraining_tables(Results(Path("nowhere"), [], [], [], [], retraining=[*records, *other]))) == 2


def test_auc_of_few_positives_is_left_out() -> None:
    zero = Interval(0.01, 0.0, 0.02, 0.01, 10)
    few, enough = (StaleBin(0, 4, 99, count, 1.0, 0.5, 2.0, 0.7, 0.71, 0.6, zero) for count in (9, 10))
    report = StalenessReport("some", 2, 20, 100.0, 50.0, 30.0, (0, 1), enough, (few,))
    made = Results(Path("nowhere"), [], [], [], [], staleness=[ResultRecord("run it", "cpu", "Some CPU", 1.0, report)])
    text = staleness_section(made)
    assert "| 0–4 | 99 | 9 | 100 % | 0.500 | 2.000 | – | – | – | – |" in text
    assert "| 0–4 | 99 | 10 | 100 % | 0.500 | 2.000 | 70.00 | 71.00 | 60.00 | +1.00 [+0.00, +2.00] |" in text
    assert "from the model of day 50 to a new one, other random weights to begin with" in text


def test_makers_begin_with_one_and_the_same_first_model() -> None:
    new, heads_alone, *_ = retraining.makers(ENCODER, event_and_user)
    assert isinstance(new, NewModel)
    assert isinstance(heads_alone, FirstEncoder)


@pytest.mark.parametrize("command", ["retraining", "staleness"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["oulad"], "give the folder with the data"),
        (["oulad", "--folder", "."], "cannot be read"),
        (["wikipedia"], "'wikipedia' is not one of 'oulad', 'groceries'"),
    ],
)
def test_command_says_what_is_missing(command: str, arguments: list[str], message: str, tmp_path: Path) -> None:
    with CliRunner().isolated_filesystem(tmp_path):
        result = CliRunner().invoke(main, [command, *arguments])
    assert result.exit_code != 0
    assert message in result.output


def an_answer(folder: Path) -> Run[Any]:
    of, scratch = stream(drifts=True), folder / "unfinished" / "answer"
    return Run("answer", lambda: answers(of, NewModel(ENCODER, HEADS), 1, 0, scratch))


def a_look_at_attention(folder: Path) -> Run[Any]:
    choice = Choice(width=8, time_width=8, layers=1, neighbours=5, epochs=3)
    return Run("look", lambda: attention.measure(circles(300), choice, 0, folder / "unfinished" / "look"))


@pytest.mark.parametrize(
    ("kind", "run"), [(StalenessReport, a_switch), (StepAnswers, an_answer), (AttentionReport, a_look_at_attention)]
)
def test_killed_run_trains_no_epoch_twice_and_tells_the_same(
    kind: type[Any], run: Callable[[Path], Run[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = fill(tmp_path / "whole", kind, [run(tmp_path / "whole")])
    saves: list[tuple[Path, int]] = []
    save = Checkpoint.save

    def noted(self: Checkpoint, identity: str, snapshot: TrainingSnapshot) -> None:
        save(self, identity, snapshot)
        saves.append((self.folder, len(snapshot.epochs)))
        if len(saves) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", noted)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "killed", kind, [run(tmp_path / "killed")])
    (gone_on,) = fill(tmp_path / "killed", kind, [run(tmp_path / "killed")])
    assert len(set(saves)) == len(saves)
    told = [{**asdict(report), "cpu_s": 0.0} for report in (whole, gone_on)]
    assert told[0] == told[1]
