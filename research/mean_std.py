"""How sure a figure is over the seeds of a method."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MeanStd:
    """count: finite values   mean, std: NaN for none; std with n − 1 in the denominator, NaN for fewer than two."""

    count: int
    mean: float
    std: float

    def __str__(self) -> str:
        """As tables have it: in per cent, `96.21 (0.13)`; `96.21` for one value."""
        spread = f" ({100 * self.std:.2f})" if self.count > 1 else ""
        return f"{100 * self.mean:.2f}{spread}"


def mean_std(values: Iterable[float]) -> MeanStd:
    """Over seeds; a NaN, where the figure is undefined, is left out.

    >>> str(mean_std([0.96, 0.97, 0.98]))
    '97.00 (1.00)'
    """
    found = np.array([value for value in values if np.isfinite(value)], np.float64)
    mean = float(found.mean()) if len(found) else float("nan")
    return MeanStd(len(found), mean, float(found.std(ddof=1)) if len(found) > 1 else float("nan"))
