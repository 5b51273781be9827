"""Figures of merit of a head's answers, as they stand in a report."""

import math

import numpy as np
from numpy.typing import NDArray

from stream_tgat.monitoring.validation import KnownAnswers
from stream_tgat.topology import Head
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.reliability import reliability
from stream_tgat.wire import AnswerFigures, HeadQuality


def head_quality(head: Head, answers: KnownAnswers) -> HeadQuality:
    """Figures over all answers, and over those of each model: figures of different models are never one unsaid."""
    asked = answers.asked
    return HeadQuality(
        head=head.name,
        label=head.label_name,
        overall=answer_figures(answers.truth, answers.probability, answers.alerted),
        by_model={
            int(model): answer_figures(answers.truth[of], answers.probability[of], answers.alerted[of])
            for model in np.unique(answers.model)
            for of in (answers.model == model,)
        },
        since=float(asked.min()) if len(asked) else None,
        until=float(asked.max()) if len(asked) else None,
        labels=answers.labels,
        without_prediction=answers.without_prediction,
        without_prediction_of=answers.without_prediction_of,
        too_old=answers.too_old,
        learnt_from=answers.learnt_from,
        immature=answers.immature,
        answers_after=answers.answers_after,
    )


def answer_figures(
    truth: NDArray[np.float64], probability: NDArray[np.float64], alerted: NDArray[np.bool_]
) -> AnswerFigures:
    """Figures of n answers: truth 0 or 1, probability, and whether an alert was raised at the time."""
    found = binary_metrics(truth, probability)
    return AnswerFigures(
        count=found.count,
        base_rate=_defined(found.base_rate),
        auc=_defined(found.auc),
        average_precision=_defined(found.average_precision),
        brier=_mean((probability - truth) ** 2),
        calibration_error=_defined(reliability(truth, probability).error),
        alerts=int(alerted.sum()),
        alert_precision=_mean(truth[alerted]),
        unmeasured=found.unmeasured,
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _defined(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None
