"""What a policy is worth: figures of each step and of all, and its gain over the first model for ever."""

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.prequential.makers import Maker, ScoresByHead
from research.prequential.policies import Policy, serving
from research.prequential.steps import PrequentialStream
from stream_tgat.errors import DataError
from stream_tgat.evaluation.bootstrap import HeadScores, Interval, mean_bootstrap, paired_mean_bootstrap
from stream_tgat.training.metrics import binary_metrics

DAY_S = 86_400.0

SIGNIFICANT = 6
"""Digits of a score that are kept."""


@dataclass(frozen=True)
class StepAnswers:
    """What the model of a step says to every question: a row a head, as `ScoresByHead`.

    cpu_s: to make the model, and to ask it everything; since the last kill, if there was one
    """

    maker: str
    step: int
    seed: int
    cpu_s: float
    scores: tuple[tuple[float, ...], ...]

    @cached_property
    def arrays(self) -> ScoresByHead:
        """The scores as arrays [n]."""
        return tuple(np.array(row) for row in self.scores)


def answers(stream: PrequentialStream, maker: Maker, step: int, seed: int, scratch: Path | None = None) -> StepAnswers:
    """Let a maker make the model of a step, and ask it everything. Raises DataError for a score that is no number.

    scratch: where a killed training goes on
    """
    start = clock.process_time()  # other work on the machine does not count
    found = maker.scores(stream, step, seed, scratch)
    seconds = round(clock.process_time() - start, 1)
    for head, row in zip(stream.heads, found, strict=True):
        if row.shape != (len(stream.labels[head]),) or not np.isfinite(row).all():
            raise DataError(f"{stream.name}: {maker.name} of step {step} does not answer every question of {head}")
    kept = tuple(tuple(float(f"{value:.{SIGNIFICANT}g}") for value in row) for row in found)
    return StepAnswers(maker.name, step, seed, seconds, kept)


@dataclass(frozen=True)
class StepHeadFigures:
    """Of one head. auc, average_precision: mean over seeds, NaN where a class is missing"""

    head: str
    count: int
    base_rate: float
    auc: float
    average_precision: float


@dataclass(frozen=True)
class StepReport:
    """A maker's models under a policy, in one step or in several.

    steps: which; a step's first day is in `days`, counted from the first interaction
    pooled: questions of all steps are one, of whichever model; else figures are means over steps
    known: answers of all heads, at the beginning of the (last) step   positive: those of them that are 1
    made: for each seed, the step that the model of the (last) step was made at   cpu_s: to make one and ask it, mean
    auc: mean over heads, steps and seeds, users drawn anew   gain: over the first model for ever, on the same users
    """

    task: str
    maker: str
    policy: Policy
    steps: tuple[int, ...]
    days: tuple[float, ...]
    pooled: bool
    seeds: int
    known: int
    positive: int
    made: tuple[int, ...]
    cpu_s: float
    heads: tuple[StepHeadFigures, ...]
    auc: Interval
    gain: Interval


@dataclass(frozen=True)
class AgeReport:
    """AUC of models that are so many steps old less that of new ones, over the steps in which there are both."""

    task: str
    maker: str
    age: int
    seeds: int
    steps: tuple[int, ...]
    less: Interval


Made = Sequence[Sequence[StepAnswers]]
"""By seed and step: what each model says."""


def step_report(
    stream: PrequentialStream,
    maker: str,
    policy: Policy,
    made: Made,
    first: Made,
    steps: Sequence[int],
    pooled: bool,
    rounds: int,
) -> StepReport:
    """Figures of a policy. made: its models   first: those of which the first one is compared with"""
    served = [serving(policy, stream, [each.arrays for each in models]) for models in made]
    mine = [scored(stream, models, by, steps, pooled) for models, by in zip(made, served, strict=True)]
    other = [scored(stream, models, [0] * len(stream.cuts), steps, pooled) for models in first]
    every, others = [each for seed in mine for each in seed], [each for seed in other for each in seed]
    known = [target.labels.value for target in stream.task(steps[-1]).targets]
    return StepReport(
        stream.name,
        maker,
        policy,
        tuple(steps),
        tuple((stream.cuts[step] - stream.interactions.time[0]) / DAY_S for step in steps),
        pooled,
        len(made),
        sum(int((~np.isnan(value)).sum()) for value in known),
        sum(int(np.nansum(value)) for value in known),
        tuple(each[steps[-1]] for each in served),
        _mean([models[by[step]].cpu_s for models, by in zip(made, served, strict=True) for step in steps]),
        tuple(_head(head, at, mine, len(stream.heads)) for at, head in enumerate(stream.heads)),
        mean_bootstrap(with_both_classes(every), rounds=rounds),
        paired_mean_bootstrap(with_both_classes(every), with_both_classes(others), rounds=rounds),
    )


def age_report(stream: PrequentialStream, maker: str, made: Made, age: int, rounds: int) -> AgeReport:
    """What models lose over `age` steps, over the steps that have a model so old."""
    steps = range(age, len(stream.cuts))
    old, new = (
        [
            each
            for models in made
            for each in scored(stream, models, [step - back for step in range(len(stream.cuts))], steps, pooled=False)
        ]
        for back in (age, 0)
    )
    less = paired_mean_bootstrap(with_both_classes(old), with_both_classes(new), rounds=rounds)
    return AgeReport(stream.name, maker, age, len(made), tuple(steps), less)


def scored(
    stream: PrequentialStream, models: Sequence[StepAnswers], served: Sequence[int], steps: Sequence[int], pooled: bool
) -> list[HeadScores]:
    """Of one seed: each head's answers in each step, or in all of them at once; heads change fastest."""
    parts = [
        [_answered(stream, models[served[step]].arrays, at, step) for at in range(len(stream.heads))] for step in steps
    ]
    if not pooled:
        return [each for part in parts for each in part]
    return [
        HeadScores(*(np.concatenate([np.asarray(array) for array in arrays]) for arrays in zip(*of_head, strict=True)))
        for of_head in (
            [(part[at].truth, part[at].score, part[at].user) for part in parts] for at in range(len(stream.heads))
        )
    ]


def _answered(stream: PrequentialStream, scores: ScoresByHead, at: int, step: int) -> HeadScores:
    head = stream.heads[at]
    places = stream.places(head, step)
    return HeadScores(stream.labels[head].value[places], scores[at][places], stream.users(head)[places])


def _head(head: str, at: int, of_seeds: Sequence[Sequence[HeadScores]], heads: int) -> StepHeadFigures:
    """Means over seeds and, where they are apart, over steps."""
    mine = [each for seed in of_seeds for each in seed[at::heads]]
    found = [binary_metrics(each.truth, each.score) for each in mine]
    truth = np.concatenate([np.asarray(each.truth) for each in of_seeds[0][at::heads]])
    return StepHeadFigures(
        head,
        len(truth),
        _mean([float(truth.mean())] if len(truth) else []),
        _mean([each.auc for each in found]),
        _mean([each.average_precision for each in found]),
    )


def with_both_classes(every: Sequence[HeadScores]) -> list[HeadScores]:
    """Those that have an AUC: the truth is the same for every model, so that the same ones go everywhere."""
    return [each for each in every if len(np.unique(np.asarray(each.truth))) == 2]


def _mean(values: Sequence[float]) -> float:
    finite: NDArray[np.float64] = np.array([value for value in values if np.isfinite(value)])
    return float(finite.mean()) if len(finite) else float("nan")
