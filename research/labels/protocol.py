"""The protocol: every method gets the task as it is at the cut-off, is asked the same, and is judged alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.labels.label_report import HeadReport, LabelFigures, LabelReport
from research.labels.methods import LabelMethod
from research.labels.task import HeadQuestions, LabelTask, QuestionPart
from stream_tgat.errors import DataError
from stream_tgat.evaluation.bootstrap import HeadScores, Interval, paired_mean_bootstrap, user_bootstrap
from stream_tgat.training.metrics import binary_metrics

SIGNIFICANT = 7
"""Digits of a score that are kept."""


@dataclass(frozen=True)
class LabelProtocol:
    """How to evaluate. rounds: of the bootstrap over users; its seed is fixed"""

    rounds: int = 1000


STANDARD = LabelProtocol()


def measure(task: LabelTask, method: LabelMethod, seed: int, protocol: LabelProtocol = STANDARD) -> LabelReport:
    """Ask a method about every question of validation and test.

    The method sees no answer that is not known at the cut-off.
    """
    scores = method.scores(task.at_cutoff(), seed)
    heads = []
    for target, score in zip(task.targets, scores, strict=True):
        _check(task, method, target, score)
        validation, test = (
            _figures(task, target, part, score, protocol) for part in (QuestionPart.VALIDATION, QuestionPart.TEST)
        )
        kept = tuple(float(f"{value:.{SIGNIFICANT}g}") for value in score[target.test])
        heads.append(HeadReport(target.name, validation, test, kept))
    return LabelReport(task.name, method.name, seed, tuple(heads))


def compare(
    task: LabelTask, ones: Sequence[LabelReport], others: Sequence[LabelReport], protocol: LabelProtocol = STANDARD
) -> Interval:
    """Test AUC of a method less another's, mean over heads and seeds: the same questions, the same users drawn."""
    return paired_mean_bootstrap(_scored(task, ones), _scored(task, others), rounds=protocol.rounds)


def _scored(task: LabelTask, reports: Sequence[LabelReport]) -> list[HeadScores]:
    return [
        HeadScores(target.labels.value[target.test], head.scores, task.users(target, QuestionPart.TEST))
        for report in reports
        for target, head in zip(task.targets, report.heads, strict=True)
    ]


def _check(task: LabelTask, method: LabelMethod, target: HeadQuestions, score: NDArray[np.float64]) -> None:
    if score.shape != (len(target.labels),) or not np.isfinite(score).all():
        raise DataError(
            f"{task.name}: {method.name} must answer all {len(target.labels)} questions of {target.name} with a number"
        )


def _figures(
    task: LabelTask, target: HeadQuestions, part: QuestionPart, score: NDArray[np.float64], protocol: LabelProtocol
) -> LabelFigures:
    places = target.part(part)
    truth = target.labels.value[places]
    if len(places) == 0:
        nowhere = float("nan")
        return LabelFigures(part, 0, nowhere, Interval(nowhere, nowhere, nowhere, nowhere, 0), nowhere)
    measured = binary_metrics(truth, score[places])
    area = user_bootstrap(truth, score[places], task.users(target, part), rounds=protocol.rounds)
    return LabelFigures(part, measured.count, measured.base_rate, area, measured.average_precision)
