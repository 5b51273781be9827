"""When a question's answers are complete: answers of one kind are often known long before those of the other.

A return is known within days, that nothing was returned only after a month. So among the newest questions only returns
are known, and who learns from them or measures on them is misled. Questions count once answers of *both* kinds have had
their time: a delay that the topology states for a head, or that the log itself shows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COMPLETE = 0.99
"""Share of the answers of each kind that are known after the delay."""

FEW = 20
"""With fewer answers than this, a share of them means nothing: the longest delay stands for it."""


@dataclass(frozen=True)
class Maturity:
    """delay_s: seconds from a question until its answers are complete   known_until: unix seconds, of the newest answer

    stated: whether the topology says so; else the log has shown it
    """

    delay_s: float = 0.0
    known_until: float = float("inf")
    stated: bool = False

    @property
    def complete_until(self) -> float:
        """Unix seconds: questions asked until then have their answers."""
        return self.known_until - self.delay_s

    def complete_at(self, moment: float) -> float:
        """The same as it was at a moment (unix seconds)."""
        return min(moment, self.known_until) - self.delay_s


AT_ONCE = Maturity()
"""Answers are known when the question is asked."""


def maturity_of(
    asked: NDArray[np.float64], known: NDArray[np.float64], value: NDArray[np.float64], stated_s: float | None
) -> Maturity:
    """Of answers [n], one per question.

    asked, known: unix seconds   value: 0 or 1   stated_s: the delay that the topology states, None where it does not
    """
    if len(asked) == 0:
        return Maturity(stated_s or 0.0, stated=stated_s is not None)
    until = float(known.max())
    if stated_s is not None:
        return Maturity(stated_s, until, stated=True)
    kinds = [value == kind for kind in np.unique(value)]
    return Maturity(max(learnt_delay(asked[of], known[of], until) for of in kinds), until)


def learnt_delay(asked: NDArray[np.float64], known: NDArray[np.float64], until: float) -> float:
    """Seconds after which `COMPLETE` of the answers [n] of one kind are known, n > 0.

    Near the end of the log only short delays are seen, so that those seen are too short on the whole. The product-limit
    estimator for truncation on the right (Lynden-Bell, 1971) allows for it: how many delays are no longer than x is
    told by those questions alone that have been followed for x. Where these are fewer than FEW, nothing is told.

    asked, known: unix seconds   until: unix seconds, up to which answers are known
    """
    delay = np.sort(known - asked)
    if len(delay) < FEW:
        return float(delay[-1])
    followed = np.sort(until - asked)
    longest, first, count = np.unique(delay, return_index=True, return_counts=True)
    at_risk = first + count - np.searchsorted(followed, longest, "left")
    shorter = np.where(at_risk >= FEW, 1 - count / np.maximum(at_risk, 1), 1.0)
    within = np.append(np.cumprod(shorter[:0:-1])[::-1], 1.0)
    return float(longest[np.argmax(within >= COMPLETE)])
