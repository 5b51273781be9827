"""A refit learns from what its measured twin held out, for as long, and drift makes it pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from research.experiments import refit
from research.experiments.queue import ResultOrigin
from research.page.pages import filled
from research.page.results import read_results
from research.prequential.refit import HELD_OUT, MeasuredMaker, RefittedMaker
from tests.unit.research.prequential.drifting import ENCODER, HEADS, stream


def test_measured_model_does_not_know_the_newest_part_of_the_log() -> None:
    task = stream(drifts=False).task(1, HELD_OUT)
    assert task.cutoff == 425.0, "500 interactions, one a second, less 15 %"
    (target, _) = task.targets
    assert np.flatnonzero(~np.isnan(target.labels.value))[-1] == 415, "what was told 10 s later was known by then"


def test_refit_learns_for_as_many_epochs_as_validation_chose() -> None:
    of = stream(drifts=False)
    measured = MeasuredMaker(replace(ENCODER, settings=replace(ENCODER.settings, epochs=3)), HEADS)
    refitted = RefittedMaker(measured)
    alone = refitted.scores(of, 1, 0)
    measured.scores(of, 1, 0)
    assert 1 <= measured.epochs(of, 1, 0) <= 3
    again = refitted.scores(of, 1, 0)
    assert all((one == other).all() for one, other in zip(alone, again, strict=True))


@pytest.mark.slow
def test_refit_pays_where_the_answer_changed_in_what_was_held_out(tmp_path: Path) -> None:
    # From 600 s on another feature tells; at 700 s the measured model, which ends at 595 s, has never seen that.
    reports = refit.make(
        stream(drifts=True), MeasuredMaker(ENCODER, HEADS), 1, "s", tmp_path / "r", tmp_path / "s", rounds=50
    )
    assert [each.steps for each in reports] == [(0,), (1,), (2,), (3,), (0, 1, 2, 3)]
    changed = reports[2]
    assert changed.gain.low > 0
    assert changed.refitted.estimate - changed.measured.estimate == changed.gain.estimate


@pytest.mark.slow
def test_page_tells_each_step_and_what_is_claimed_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    measured, made_by = MeasuredMaker(ENCODER, HEADS), ResultOrigin("make it")
    refit.make(stream(drifts=True), measured, 1, "s", folder / "refit", tmp_path / "s", origin=made_by, rounds=50)
    text = filled("{{ refit }}\n", read_results(folder, folder))
    assert "Over 4 steps the refit " in text
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][2:] == [
        "| 0",
        "| 0",
        "| 0",
        "| 0",
        "| all",
    ]
