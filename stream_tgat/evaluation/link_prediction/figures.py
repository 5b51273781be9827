"""Figures of link prediction from scores. NaN where a figure is undefined, never an exception."""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

NOWHERE = float("nan")


def average_precision(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Average precision; equal scores enter together, so that a tie gains nothing from its order.

    >>> average_precision(np.array([3.0, 1.0]), np.array([2.0]))
    0.8333333333333333
    """
    if len(positive) == 0 or len(negative) == 0:
        return NOWHERE
    return float(average_precision_score(*_labelled(positive, negative)))


def batch_average_precision(positive: NDArray[np.float64], negative: NDArray[np.float64], size: int) -> float:
    """Mean of the average precision of consecutive batches, the last one shorter if need be, as DyGLib reports it.

    positive, negative: [n], pair by pair. Each batch has its own threshold, so that drift over time goes unpunished.
    """
    starts = range(0, len(positive), size)
    figures = [average_precision(positive[at : at + size], negative[at : at + size]) for at in starts]
    return float(np.mean(figures)) if figures else NOWHERE


def auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Area under the ROC curve: how often a positive scores above a negative, ties half."""
    if len(positive) == 0 or len(negative) == 0:
        return NOWHERE
    return float(roc_auc_score(*_labelled(positive, negative)))


def accuracy(positive: NDArray[np.float64], negative: NDArray[np.float64], threshold: float) -> float:
    """Share answered rightly, when a score above the threshold means yes; positives count as much as negatives."""
    if len(positive) == 0 or len(negative) == 0 or np.isnan(threshold):
        return NOWHERE
    return float(((positive > threshold).mean() + (negative <= threshold).mean()) / 2)


def best_threshold(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """The threshold with the best accuracy: a score, of which those above it mean yes; the lowest of equally good ones.

    >>> best_threshold(np.array([0.4, 0.9]), np.array([0.1, 0.2]))
    0.2
    """
    if len(positive) == 0 or len(negative) == 0:
        return NOWHERE
    scores = np.unique(np.concatenate([positive, negative]))
    kept = 1 - np.searchsorted(np.sort(positive), scores, "right") / len(positive)
    refused = np.searchsorted(np.sort(negative), scores, "right") / len(negative)
    return float(scores[np.argmax(kept + refused)])


def ranks(positive: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each positive among its candidates, 1 the best; equal scores share the mean of their ranks.

    positive: [n]   others: [n, C], NaN where there is no candidate
    Returns [n], NaN for a row without candidates. A scorer that says the same of all has the rank in the middle.

    >>> ranks(np.array([2.0]), np.array([[3.0, 2.0, 1.0]]))
    array([2.5])
    """
    above = (others > positive[:, None]).sum(1)
    equal = (others == positive[:, None]).sum(1)
    return np.where(np.isnan(others).all(1), np.nan, 1 + above + equal / 2)


def _labelled(
    positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.repeat([1, 0], [len(positive), len(negative)]), np.concatenate([positive, negative])
