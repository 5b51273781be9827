"""From a network's logits to probabilities one can act on, and thresholds that say when to."""

import numpy as np
from numpy.typing import NDArray

STEEPEST, FLATTEST = 10.0, 0.05
#: How far apart one probability may come out here and where it is served: some roundings of a float32.
_ROUNDING = np.float32(1e-6)


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
    served = np.sort(probability.astype(np.float32))[::-1]
    last_silent = served[min(int(np.floor(share * len(served))), len(served) - 1)]
    louder = served[served > last_silent]
    return _between(last_silent, louder[-1] if len(louder) else last_silent + 2 * _ROUNDING)


def threshold_for_precision(truth: NDArray[np.float64], probability: NDArray[np.float64], precision: float) -> float:
    """The lowest threshold at or above which at least `precision` of the answers are positive; 1 where none is."""
    order = np.argsort(-probability.astype(np.float32), kind="stable")
    ordered = probability.astype(np.float32)[order]
    reached = np.cumsum(truth[order]) / np.arange(1, len(order) + 1) >= precision
    last_of_tie = np.append(ordered[1:] < ordered[:-1], True) if len(order) else np.zeros(0, np.bool_)
    fitting = np.flatnonzero(reached & last_of_tie)
    if not len(fitting):
        return 1.0
    lowest, quieter = ordered[fitting[-1]], ordered[fitting[-1] + 1 :]
    return _between(quieter[0] if len(quieter) else lowest - 2 * _ROUNDING, lowest)


def _between(low: np.float32, high: np.float32) -> float:
    """A threshold above `low` and not above `high`, as far from both as possible.

    What serves is float32 and rounded in another order than here, so a threshold that is itself a probability would
    let ties fall on either side of it.
    """
    middle = np.float32((float(low) + float(high)) / 2)
    return float(middle if low < middle <= high else high)


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
