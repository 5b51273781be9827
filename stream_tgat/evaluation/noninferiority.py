"""Is a model worse than another? A non-inferiority test of paired differences, figure by figure and on average.

What is not shown to be good enough is unknown: a difference that the data leave open proves nothing. The rule was
chosen by simulation, see `research.experiments.gate`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from scipy.special import ndtri

POWER = 0.8
"""Chance of an equally good model to be found good enough, for which the number of answers needed is told."""


class Verdict(StrEnum):
    """What the data say of a model."""

    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Difference:
    """By how much a model is better, as measured. std_error: of the gain, NaN where it cannot be told"""

    gain: float
    std_error: float


@dataclass(frozen=True)
class Noninferiority:
    """margin: a loss that does not matter   confidence: one-sided, from 0.5 (chance does not matter) to 1"""

    margin: float
    confidence: float = 0.95

    def judge(self, figures: Sequence[Difference], mean: Difference) -> Verdict:
        """A model by all its figures.

        Not worse: the lower bound of their mean is above −margin, and no figure is worse.
        mean: of the figures' gains, with the standard error of that mean
        """
        if any(self.is_worse(each) for each in (*figures, mean)):
            return Verdict.WORSE
        return Verdict.NOT_WORSE if self.low(mean) > -self.margin else Verdict.UNKNOWN

    def is_worse(self, each: Difference) -> bool:
        """Whether a loss is certain, and is not certain to be within the margin."""
        return self.high(each) < 0.0 and not self.low(each) > -self.margin

    def is_better(self, each: Difference) -> bool:
        """Whether a gain is certain."""
        return self.low(each) > 0.0

    def low(self, each: Difference) -> float:
        """Lower bound of a gain; NaN where it cannot be told."""
        return each.gain - self._errors * each.std_error

    def high(self, each: Difference) -> float:
        """Upper bound of a gain; NaN where it cannot be told."""
        return each.gain + self._errors * each.std_error

    def times_the_answers(self, std_error: float) -> float:
        """How many times as many answers tell of an equally good model, in POWER of all cases, that it is not worse.

        At least twice: this many did not. Infinite where the margin is 0, or where nothing is known of chance.
        """
        if not (math.isfinite(std_error) and self.margin):
            return math.inf
        needed = self.margin / (self._errors + float(ndtri(POWER)))
        return max((std_error / needed) ** 2, 2.0)

    @cached_property
    def _errors(self) -> float:
        """In standard errors."""
        return float(ndtri(self.confidence))
