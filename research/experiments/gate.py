"""How often does a gate promote worse and better models? Simulated, so that the truth is known.

A figure's gain is measured with an error: normal, of a known size, and correlated between the figures of a model, as
the same users are asked. One part draws answers themselves, and takes the error from the bootstrap over users.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import ndtri

from research.experiments.options import command_line, out_option, told
from research.experiments.queue import ResultOrigin, Run, fill
from stream_tgat.evaluation.bootstrap import Paired, paired_replicates
from stream_tgat.evaluation.noninferiority import Difference, Noninferiority, Verdict

Replicates = NDArray[np.float64]

MARGIN, CONFIDENCE = 0.02, 0.95

CORRELATION = 0.3
"""Between the errors of two figures of one model."""

RETRAININGS = 24
"""In a row."""

ROUNDS = 200
"""Of the bootstrap: an error estimated by so many is off by some 5 %."""


@dataclass(frozen=True, eq=False)
class GateTrials:
    """Many gates at once. gains, errors: [gates, figures]   mean_errors: [gates], of the mean of the gains"""

    gains: Replicates
    errors: Replicates
    mean_errors: Replicates


Rule = Callable[[GateTrials], NDArray[np.bool_]]
"""Which of the gates let the new model pass: [gates]."""


def not_shown_worse(found: GateTrials) -> NDArray[np.bool_]:
    """No figure is worse by more than 0.005 and two standard errors."""
    return np.asarray((found.gains + 2.0 * found.errors >= -0.005).all(1))


def every_figure(found: GateTrials) -> NDArray[np.bool_]:
    """The lower bound of each figure is above −margin."""
    return np.asarray((found.gains - ndtri(CONFIDENCE) * found.errors > -MARGIN).all(1))


def mean_alone(found: GateTrials) -> NDArray[np.bool_]:
    """The lower bound of the mean is above −margin."""
    return np.asarray(found.gains.mean(1) - ndtri(CONFIDENCE) * found.mean_errors > -MARGIN)


def the_gate(found: GateTrials) -> NDArray[np.bool_]:
    """That of `retrain`: the mean, and no figure is worse."""
    return np.array([verdict is Verdict.NOT_WORSE for verdict in _verdicts(found)])


RULES: Mapping[str, Rule] = {
    "not shown worse": not_shown_worse,
    "every figure": every_figure,
    "mean alone": mean_alone,
    "mean, none worse": the_gate,
}
"""By the name that tables have."""

CHOSEN = "mean, none worse"


def _verdicts(found: GateTrials) -> list[Verdict]:
    test = Noninferiority(MARGIN, CONFIDENCE)
    return [
        test.judge(
            [Difference(*each) for each in zip(gains, errors, strict=True)], Difference(sum(gains) / len(gains), e)
        )
        for gains, errors, e in zip(
            found.gains.tolist(), found.errors.tolist(), found.mean_errors.tolist(), strict=True
        )
    ]


def measured(truth: Replicates, errors: Sequence[float], random: np.random.Generator) -> GateTrials:
    """Measure some models. truth: [gates, figures], true gains   errors: of each figure"""
    size, gates = np.array(errors), len(truth)
    common, own = random.normal(size=(gates, 1)), random.normal(size=truth.shape)
    noise = size * (np.sqrt(CORRELATION) * common + np.sqrt(1.0 - CORRELATION) * own)
    told = size * np.sqrt(random.chisquare(ROUNDS - 1, truth.shape) / (ROUNDS - 1))
    mean = np.sqrt((1.0 - CORRELATION) * (told**2).sum(1) + CORRELATION * told.sum(1) ** 2) / len(size)
    return GateTrials(truth + noise, told, mean)


@dataclass(frozen=True)
class GateRow:
    """truth: true gain of each figure   errors: standard error of each   promoted: share of the gates, by rule"""

    truth: tuple[float, ...]
    errors: tuple[float, ...]
    promoted: dict[str, float]


@dataclass(frozen=True)
class AnswerRow:
    """A head with so many answers. truth: true difference of AUC   error: mean standard error that the bootstrap told

    spread: of the measured differences, which the error should be
    """

    answers: int
    truth: float
    error: float
    spread: float
    promoted: dict[str, float]


@dataclass(frozen=True)
class SequenceRow:
    """Retrainings in a row. course: what new models are   error: standard error of each of the figures

    promotions: mean   loss: of what serves in the end against the best that served, mean over figures and runs
    worst: that loss at its largest in a run, exceeded in 5 % of runs   quality: of what serves in the end
    """

    course: str
    rule: str
    error: float
    figures: int
    promotions: float
    loss: float
    worst: float
    quality: float


@dataclass(frozen=True)
class GateReport:
    """gates: of each row   margin, confidence: of the rules"""

    gates: int
    margin: float
    confidence: float
    rows: tuple[GateRow, ...]
    answers: tuple[AnswerRow, ...]
    sequences: tuple[SequenceRow, ...]


def gate_row(truth: Sequence[float], errors: Sequence[float], gates: int, seed: int) -> GateRow:
    """Put so many models of one truth before each rule."""
    found = measured(np.tile(truth, (gates, 1)), errors, np.random.default_rng(seed))
    promoted = {name: float(rule(found).mean()) for name, rule in RULES.items()}
    return GateRow(tuple(truth), tuple(errors), promoted)


def answer_row(answers: int, truth: float, gates: int, seed: int, auc: float = 0.75, alike: float = 0.9) -> AnswerRow:
    """One head of which a tenth is true; users have two answers each. Scores are normal in each class.

    auc: of the serving model   alike: correlation of both models' scores
    """
    random = np.random.default_rng(seed)
    shifts = np.sqrt(2.0) * ndtri([auc + truth, auc])
    gains, errors = np.zeros((gates, 1)), np.zeros((gates, 1))
    for at in range(gates):
        value = (random.random(answers) < 0.1).astype(np.float64)
        common = random.normal(size=answers)
        one, other = (
            np.sqrt(alike) * common + np.sqrt(1.0 - alike) * random.normal(size=answers) + shift * value
            for shift in shifts
        )
        users = np.arange(answers) // 2
        pair = Paired("auc", value, one, other, users)
        gains[at] = _area(value, one) - _area(value, other)
        errors[at] = np.nanstd(paired_replicates([pair], seed=at, rounds=ROUNDS), ddof=1)
    found = GateTrials(gains, errors, errors[:, 0])
    promoted = {name: float(rule(found).mean()) for name, rule in RULES.items()}
    return AnswerRow(answers, truth, float(errors.mean()), float(gains.std(ddof=1)), promoted)


def _area(truth: Replicates, score: Replicates) -> float:
    order = np.argsort(score)
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positives = truth.sum()
    return float((ranks[truth == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(truth) - positives)))


COURSES: Mapping[str, tuple[bool, float, float]] = {
    "each 0.005 worse than what serves": (True, -0.005, 0.005),
    "each 0.01 worse than what serves": (True, -0.01, 0.005),
    "all as good, but for luck": (False, 0.0, 0.01),
    "0.003 better each time": (False, 0.003, 0.01),
}
"""Whether a new model is made from what serves (else from nothing), its gain, and how models made alike differ."""

HELD_AGAINST = ("not shown worse", "serving alone", "serving and the best")
"""Rules of sequences: the first one and the gate's, with and without the best release."""


def sequence_row(course: str, rule: str, error: float, figures: int, runs: int, seed: int) -> SequenceRow:
    """So many runs of retrainings. All qualities are differences from the first model."""
    random, (from_serving, gain, luck) = np.random.default_rng(seed), COURSES[course]
    serving, best = np.zeros((runs, figures)), np.zeros((runs, figures))
    promotions, highest, worst = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    test = Noninferiority(MARGIN, CONFIDENCE)
    for number in range(1, RETRAININGS + 1):
        new = (serving if from_serving else number * gain) + from_serving * gain
        new = new + luck * random.normal(size=(runs, figures))
        # The new model's part of the error is in both comparisons.
        mine, theirs, its = (measured(np.zeros((runs, figures)), [error] * figures, random) for _ in range(3))
        same = (serving == best).all(1)[:, None]
        shared = (mine.gains - theirs.gains) / np.sqrt(2.0)
        beside = GateTrials(new - serving + shared, mine.errors, mine.mean_errors)
        apart = np.where(same, shared, (mine.gains - its.gains) / np.sqrt(2.0))
        if rule == "not shown worse":
            passed, better = not_shown_worse(beside), np.zeros(runs, np.bool_)
        else:
            against_best = GateTrials(new - best + apart, mine.errors, mine.mean_errors)
            passed = the_gate(beside)
            if rule == "serving and the best":
                passed &= the_gate(against_best)
            better = np.array(
                [
                    test.is_better(Difference(*each))
                    for each in zip(against_best.gains.mean(1).tolist(), mine.mean_errors.tolist(), strict=True)
                ]
            )
        serving = np.where(passed[:, None], new, serving)
        best = np.where((passed & better)[:, None], new, best)
        promotions += passed
        highest = np.maximum(highest, serving.mean(1))
        worst = np.maximum(worst, highest - serving.mean(1))
    return SequenceRow(
        course,
        rule,
        error,
        figures,
        float(promotions.mean()),
        float((highest - serving.mean(1)).mean()),
        float(np.quantile(worst, 0.95)),
        float(serving.mean()),
    )


TRUTHS: Mapping[int, tuple[tuple[float, ...], ...]] = {
    1: ((0.02,), (0.0,), (-0.01,), (-0.02,), (-0.05,), (-0.1,)),
    5: tuple((gain,) * 5 for gain in (0.02, 0.0, -0.01, -0.02, -0.05))
    + tuple((loss, 0.0, 0.0, 0.0, 0.0) for loss in (-0.02, -0.05, -0.1)),
}
"""By the number of figures: all are as good, or one is worse."""

ERRORS = (0.003, 0.006, 0.012, 0.025, 0.05)
ANSWERS = (500, 2000, 8000)
ANSWER_TRUTHS = (0.02, 0.0, -0.02, -0.05)


def simulate(gates: int, seed: int = 0, answers: Sequence[int] = ANSWERS) -> GateReport:
    """All tables. answers: sizes of the part that draws answers, which takes longest"""
    rows = [
        gate_row(truth, (error,) * count, gates, seed)
        for count, truths in TRUTHS.items()
        for error in ERRORS
        for truth in truths
    ]
    drawn = [answer_row(size, truth, gates, seed) for size in answers for truth in ANSWER_TRUTHS]
    sequences = [
        sequence_row(course, rule, error, 5, gates, seed)
        for course in COURSES
        for error in (0.006, 0.012, 0.025)
        for rule in HELD_AGAINST
    ]
    return GateReport(gates, MARGIN, CONFIDENCE, tuple(rows), tuple(drawn), tuple(sequences))


@click.command("gate")
@click.option("--gates", default=1000, show_default=True, type=click.IntRange(10), help="Of each row.")
@out_option
def command(gates: int, out: Path) -> None:
    """Simulate gates with known truth: how often does each rule promote a worse model, or a better one?

    The rules are put before single retrainings, with errors of several sizes and with answers that are drawn; and
    before many in a row, where small losses could add up.
    """
    run = Run(f"gates{gates}", lambda: simulate(gates))
    with told() as on_run:
        (report,) = fill(out / "gate", GateReport, [run], on_run, ResultOrigin(command_line()))
    console = Console(stderr=True)
    found = [row for row in report.rows if max(row.truth) <= -MARGIN]
    for name in RULES:
        share = max(row.promoted[name] for row in found)
        console.print(f"{name}: a model worse by {MARGIN:g} or more is promoted in up to {share:.0%} of the gates")
