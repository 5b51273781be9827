"""Is a model that was refitted on all of the log better than the one that was measured on its newest part?

A retraining holds the newest part of the log out and measures a model on it. That model could serve, older than the log
by what was held out; or another one made by the same recipe from all of it, with as many epochs as validation chose.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from research.baselines.temporal import TemporalMethod
from research.labels.methods import Heads, inputs_of
from research.labels.task import LabelTask
from research.prequential.makers import ScoresByHead
from research.prequential.step_report import DAY_S, StepAnswers, scored, with_both_classes
from research.prequential.steps import PrequentialStream
from stream_tgat.evaluation.bootstrap import Interval, mean_bootstrap, paired_mean_bootstrap
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer

HELD_OUT = 0.15
"""Newest share of the interactions that a retraining measures on."""


@dataclass(frozen=True, eq=False)
class MeasuredMaker:
    """The model that a retraining measures: it has not learnt from the newest part of the log."""

    encoder: TemporalMethod
    heads: Heads = field(default_factory=Heads)
    name: str = "measured"
    _epochs: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """As `Maker` says."""
        return self.encoder.device

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:
        """As `Maker` says."""
        task = stream.task(step, HELD_OUT)
        return self.heads.scores(task, inputs_of(self._fitted(task, step, seed, scratch), task), seed)

    def epochs(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> int:
        """How many epochs of its encoder validation chose."""
        if (step, seed) not in self._epochs:
            self._fitted(stream.task(step, HELD_OUT), step, seed, scratch)
        return self._epochs[step, seed]

    def _fitted(self, task: LabelTask, step: int, seed: int, scratch: Path | None) -> ModelScorer:
        fitted = self.encoder.kept_in(scratch).fit(task.links(), seed)
        validated = np.array([epoch.average_precision for epoch in fitted.epochs])
        self._epochs[step, seed] = int(np.argmax(validated)) + 1
        return fitted


@dataclass(frozen=True, eq=False)
class RefittedMaker:
    """The same recipe on all that is known when the step begins, for as many epochs as the measured one's."""

    measured: MeasuredMaker
    name: str = "refitted"

    @property
    def device(self) -> str:
        """As `Maker` says."""
        return self.measured.device

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:
        """As `Maker` says."""
        of, task = self.measured, stream.task(step)
        epochs = of.epochs(stream, step, seed, None if scratch is None else scratch / "measured")
        recipe = replace(of.encoder, settings=replace(of.encoder.settings, epochs=epochs))
        folder = None if scratch is None else scratch / "refitted"
        return of.heads.scores(task, inputs_of(recipe.kept_in(folder).fit(task.links(0.0), seed), task), seed)


@dataclass(frozen=True)
class RefitReport:
    """Both models in the steps that follow them. days: at which they begin   questions: of all heads

    measured, refitted: AUC, mean over heads, steps and seeds   gain: of the refitted one, on the same users
    """

    task: str
    steps: tuple[int, ...]
    days: tuple[float, ...]
    seeds: int
    questions: int
    measured: Interval
    refitted: Interval
    gain: Interval


def refit_report(
    stream: PrequentialStream,
    measured: Sequence[Sequence[StepAnswers]],
    refitted: Sequence[Sequence[StepAnswers]],
    steps: Sequence[int],
    rounds: int,
) -> RefitReport:
    """Compare them in some steps. measured, refitted: by seed and step"""
    own = range(len(stream.cuts))
    ones, others = (
        [each for models in made for each in scored(stream, models, own, steps, pooled=False)]
        for made in (measured, refitted)
    )
    before, after = with_both_classes(ones), with_both_classes(others)
    return RefitReport(
        stream.name,
        tuple(steps),
        tuple((stream.cuts[step] - stream.interactions.time[0]) / DAY_S for step in steps),
        len(measured),
        sum(len(stream.places(head, step)) for head in stream.heads for step in steps),
        mean_bootstrap(before, rounds=rounds),
        mean_bootstrap(after, rounds=rounds),
        paired_mean_bootstrap(after, before, rounds=rounds),
    )
