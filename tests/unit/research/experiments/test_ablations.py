"""Ablations change one thing, share their runs, and are found again in the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from research.baselines.time_encodings import TimeEncodingKind
from research.experiments import ablations
from research.experiments.ablations import AblationReport, Choice, series_of
from research.experiments.queue import fill
from stream_tgat.evaluation.link_prediction import LinkProtocol
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.graph.sampling import Sampler, inverse_timespan, recent, uniform
from stream_tgat.training.checkpoint import Checkpoint, TrainingSnapshot
from tests.unit.research.baselines.small import circles

TASK = circles(300)
SMALL = Choice(width=8, time_width=8, layers=1, neighbours=4, candidates=12, epochs=1)
PROTOCOL = LinkProtocol(ranked=10)
QUERY = np.arange(10), np.arange(12, 22)[:, None], np.full(10, TASK.interactions.time[-1])


def test_sizes_share_the_run_of_their_common_size() -> None:
    found = ablations.sizes(Choice())
    assert len(found) == 18
    assert len(set(found)) == 15
    assert len(ablations.runs(TASK, found, 2, Path())) == 30
    assert len({run.key for run in ablations.runs(TASK, found, 2, Path())}) == 30


@pytest.mark.parametrize("name", list(ablations.SERIES))
def test_choices_of_a_series_differ_from_its_base_in_one_field(name: str) -> None:
    for choice in ablations.SERIES[name](SMALL):
        changed = [key for key, value in vars(choice).items() if value != vars(SMALL)[key]]
        assert len(changed) <= 1


@pytest.mark.parametrize(
    ("sampling", "sampler"),
    [("recent", recent), ("uniform", uniform(12)), ("inverse_timespan", inverse_timespan(12))],
)
def test_a_sampling_holds_in_training_and_in_evaluation(sampling: ablations.TrainingSampling, sampler: Sampler) -> None:
    method = replace(SMALL, sampling=sampling).method()
    assert method.settings.sampling == sampling
    model = method.untrained()
    assert model.config.candidates == 12
    graph = method.past_of(TASK.interactions, None)
    plain = ModelScorer(model, graph).graph.embed(model, QUERY[0], QUERY[2])
    assert torch.equal(plain, graph.embed(model, QUERY[0], QUERY[2], sampler))
    assert torch.equal(plain, graph.embed(model, QUERY[0], QUERY[2], recent)) == (sampling == "recent")


def test_without_time_there_is_nothing_to_learn_and_with_it_there_is(tmp_path: Path) -> None:
    """Graph without features. The command's runs are kept, and make a series."""
    choices = [replace(SMALL, encoding=kind) for kind in (TimeEncodingKind.NONE, TimeEncodingKind.LOG)]
    reports = fill(tmp_path / "table", AblationReport, ablations.runs(TASK, choices, 2, tmp_path / "table", PROTOCOL))
    (found,) = series_of(reports, "encoding")
    assert list(found.reports) == ["none", "Bochner, log ω"]
    nothing, something = found.reports.values()
    assert [report.test.pair().average_precision for report in nothing] == [0.5, 0.5]
    assert all(report.test.pair().average_precision != 0.5 for report in something)
    assert [(report.seed, report.epochs) for report in something] == [(0, 1), (1, 1)]
    assert series_of(reports, "width") == []


def test_killed_run_goes_on_after_its_last_whole_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice, save = replace(SMALL, epochs=2), Checkpoint.save

    def killed(self: Checkpoint, identity: str, snapshot: TrainingSnapshot) -> None:
        save(self, identity, snapshot)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            ablations.measure(TASK, choice, 0, PROTOCOL, scratch=tmp_path)
    gone_on = ablations.measure(TASK, choice, 0, PROTOCOL, scratch=tmp_path)
    whole = ablations.measure(TASK, choice, 0, PROTOCOL)
    assert gone_on.epochs == whole.epochs == 2
    assert gone_on.test.pair() == whole.test.pair()
    assert gone_on.epoch_s > 0
    # All epochs are there already: this time nothing was trained that could be timed.
    assert np.isnan(ablations.measure(TASK, choice, 0, PROTOCOL, scratch=tmp_path).epoch_s)


def test_series_keep_apart_what_differs_in_more_than_one_field() -> None:
    test = ablations.measure(TASK, replace(SMALL, encoding=TimeEncodingKind.NONE), 0, PROTOCOL)

    def report(**changed: int) -> AblationReport:
        return replace(test, choice=replace(test.choice, **changed))

    elsewhere = replace(report(width=32), test=replace(test.test, task="another"))
    reports = [report(layers=2), report(), report(width=16), report(width=4, layers=2), elsewhere, report(width=4)]
    by_width = series_of(reports, "width")
    assert [(each.task, list(each.reports)) for each in by_width] == [
        ("small", ["4", "8"]),
        ("small", ["4", "8", "16"]),
    ]
    assert [list(each.reports) for each in series_of(reports, "layers")] == [["1", "2"], ["1", "2"]]
