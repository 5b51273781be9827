"""Figures that tell how good scores are. NaN where a figure is undefined (one class only), never an exception.

Whoever shows a figure that is not there says why, in the words of `unmeasured`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score, roc_auc_score


@dataclass(frozen=True)
class BinaryMetrics:
    """How well scores rank and how well they are calibrated. count: answers; base_rate: share of positives."""

    count: int
    base_rate: float
    auc: float
    average_precision: float
    log_loss: float

    @property
    def unmeasured(self) -> str:
        """Why there is no AUC, in words; empty where there is one."""
        return unmeasured(self.count, round(self.base_rate * self.count) if self.count else 0)


def unmeasured(answers: int, true: int) -> str:
    """Why answers, so many of them true, do not tell how well a head ranks, in words; empty where they do.

    >>> unmeasured(33, 33)
    'all 33 answers are true'
    """
    if answers == 0:
        return "no answer is complete yet"
    if true in (0, answers):
        kind = "true" if true else "false"
        return f"all {answers:,} answers are {kind}" if answers > 1 else f"the only answer is {kind}"
    return ""


def binary_metrics(truth: ArrayLike, probability: ArrayLike) -> BinaryMetrics:
    """Metrics of probabilities [n] against 0/1 truths [n]; rows with a NaN probability are left out.

    >>> binary_metrics([0, 1], [0.2, 0.9]).auc
    1.0
    """
    y, p = np.asarray(truth, np.float64), np.asarray(probability, np.float64)
    answered = np.isfinite(p)
    y, p = y[answered], p[answered]
    if len(y) == 0:
        return BinaryMetrics(0, *[float("nan")] * 4)
    clipped = np.clip(p, 1e-7, 1 - 1e-7)
    loss = float(-np.mean(y * np.log(clipped) + (1 - y) * np.log1p(-clipped)))
    base = float(y.mean())
    if base in (0.0, 1.0):
        return BinaryMetrics(len(y), base, float("nan"), float("nan"), loss)
    return BinaryMetrics(len(y), base, float(roc_auc_score(y, p)), float(average_precision_score(y, p)), loss)
