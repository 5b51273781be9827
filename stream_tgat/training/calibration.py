"""From a network's logits to probabilities one can act on, and thresholds that say when to."""

import numpy as np
from numpy.typing import NDArray

STEEPEST, FLATTEST = 10.0, 0.05


def sigmoid(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(−x)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -logit))


def fit_platt(logit: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, float]:
    """Slope a and offset b of σ(a · logit + b), by maximum likelihood with Platt's smoothed targets (Platt, 1999).

    logit, truth: [n] float64. The slope stays positive: calibration never turns a ranking around.
    """
    positives, count = float(truth.sum()), len(truth)
    smoothed = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (count - positives + 2))
    slope, offset = 1.0, 0.0
    for _ in range(100):
        probability = sigmoid(slope * logit + offset)
        residual, weight = smoothed - probability, probability * (1 - probability) + 1e-9
        gradient = np.array([residual @ logit, residual.sum()])
        hessian = np.array([[weight @ logit**2, weight @ logit], [weight @ logit, weight.sum()]]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))  # Newton may overshoot far from the optimum
        slope, offset = slope + step[0], offset + step[1]
        if np.abs(step).max() < 1e-9:
            break
    if FLATTEST <= slope <= STEEPEST:
        return float(slope), float(offset)
    slope = float(np.clip(slope, FLATTEST, STEEPEST))
    return slope, _fit_offset(slope * logit, smoothed)


def threshold_for_budget(probability: NDArray[np.float64], share: float) -> float:
    """The threshold that at most `share` of the probabilities [n] lie at or above, as many as the ties allow."""
    if len(probability) == 0:
        return 1.0
    ordered = np.sort(probability)[::-1]
    allowed = int(np.floor(share * len(ordered)))
    return float(np.nextafter(ordered[allowed], 2.0)) if allowed < len(ordered) else float(ordered[-1])


def threshold_for_precision(truth: NDArray[np.float64], probability: NDArray[np.float64], precision: float) -> float:
    """The lowest threshold at or above which at least `precision` of the answers are positive; 1 where none is."""
    order = np.argsort(-probability, kind="stable")
    ordered = probability[order]
    reached = np.cumsum(truth[order]) / np.arange(1, len(order) + 1) >= precision
    last_of_tie = np.append(ordered[1:] < ordered[:-1], True) if len(order) else np.zeros(0, np.bool_)
    fitting = np.flatnonzero(reached & last_of_tie)
    return float(ordered[fitting[-1]]) if len(fitting) else 1.0


def _fit_offset(score: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """The offset b for which the mean of σ(score + b) is that of the targets, by bisection."""
    low, high = -60.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        if sigmoid(score + middle).mean() < target.mean():
            low = middle
        else:
            high = middle
    return (low + high) / 2
