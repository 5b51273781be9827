"""Who wins, the worst news first: a difference is claimed only where it exceeds the error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_ind_from_stats

from research.mean_std import mean_std
from research.page.markdown import table

LEVEL = 0.05
"""Of the test (Welch's, over seeds) that a difference has to pass to be claimed."""

HEADER = ("data", "figure", "row of TGAT", "its value", "best other row", "its value", "difference")


@dataclass(frozen=True)
class ComparedRow:
    """A row of a table in a comparison. values: of its runs, at least one"""

    method: str
    values: Sequence[float]


@dataclass(frozen=True)
class RowComparison:
    """TGAT and the best other row on one figure, higher being better. certain: they differ by more than the error."""

    title: str
    figure: str
    ours: ComparedRow
    other: ComparedRow
    certain: bool

    @property
    def difference(self) -> float:
        """Of the means, positive where TGAT is better."""
        return float(np.mean(self.ours.values) - np.mean(self.other.values))

    def cells(self) -> list[str]:
        """A row of the table of comparisons."""
        sides = [cell for side in (self.ours, self.other) for cell in (side.method, str(mean_std(side.values)))]
        return [self.title, self.figure, *sides, f"{100 * self.difference:+.2f}"]


def verdict(found: Sequence[RowComparison]) -> str:
    """Where TGAT is beaten, where it cannot be told, and where it wins; in this order."""
    if not found:
        return "Not measured yet."
    kinds: list[tuple[str, Callable[[RowComparison], bool]]] = [
        ("**Where TGAT does not win**, by more than the error:", lambda c: c.certain and c.difference < 0),
        ("**Where it cannot be told**, the difference being within the error or the runs too few:", _is_open),
        ("**Where TGAT wins**, by more than the error:", lambda c: c.certain and c.difference > 0),
    ]
    parts = []
    for says, belongs in kinds:
        lines = [each.cells() for each in found if belongs(each)]
        parts.append(f"{says}\n\n{table(HEADER, lines)}" if lines else f"{says} nowhere.")
    return "\n\n".join(parts)


def differ(one: Sequence[float], two: Sequence[float]) -> bool:
    """Whether two methods differ by more than the error over their runs: Welch's test; never for a single run."""
    if min(len(one), len(two)) < 2:
        return False
    first, second = mean_std(one), mean_std(two)
    if first.std == second.std == 0.0:
        return first.mean != second.mean
    found = ttest_ind_from_stats(
        first.mean, first.std, first.count, second.mean, second.std, second.count, equal_var=False
    )
    return bool(found.pvalue < LEVEL)


def _is_open(comparison: RowComparison) -> bool:
    return not comparison.certain or comparison.difference == 0.0
