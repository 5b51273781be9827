"""Whether probabilities mean what they say: of all answers of 30 %, do 30 % come true?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Answers in bins of about equal size, by probability. One entry a bin, the lowest first.

    count: answers   predicted: mean probability   observed: share that came true
    """

    count: tuple[int, ...]
    predicted: tuple[float, ...]
    observed: tuple[float, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of predicted and observed, by answers; NaN without any."""
        if not self.count:
            return float("nan")
        distance = np.abs(np.array(self.predicted) - np.array(self.observed))
        return float(np.average(distance, weights=self.count))


def reliability(truth: ArrayLike, probability: ArrayLike, bins: int = BINS) -> Reliability:
    """Bins between quantiles: with rare outcomes nearly all probabilities are small, and equal widths show one bin.

    truth: [n] 0 or 1   probability: [n]; equal ones share a bin, so that there may be fewer
    """
    y, p = np.asarray(truth, np.float64), np.asarray(probability, np.float64)
    if len(p) == 0:
        return Reliability((), (), ())
    edges = np.quantile(p, np.arange(1, bins) / bins)
    place = np.searchsorted(edges, p)
    count = np.bincount(place)
    some = count > 0
    predicted, observed = (np.bincount(place, each)[some] / count[some] for each in (p, y))
    return Reliability(tuple(count[some].tolist()), tuple(predicted.tolist()), tuple(observed.tolist()))
