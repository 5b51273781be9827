"""What a benchmark finds, and whether two findings differ by more than their noise."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

#: What runs differ by without a reason, where there are too few of them to tell: seen between quiet runs.
ASSUMED_NOISE = 0.15
#: So many runs say themselves how much they differ.
ENOUGH_RUNS = 3


@dataclass(frozen=True)
class Figure:
    """One number. name: unlike all others   runs: what each run found, value being their median

    more_is_better: as for rates; times, memory and the like want to be small   context: under what conditions
    """

    name: str
    value: float
    unit: str
    more_is_better: bool = False
    context: Mapping[str, object] = field(default_factory=dict)
    runs: tuple[float, ...] = ()

    @property
    def span(self) -> tuple[float, float]:
        """Where the number is to be expected again, by the runs or, with few of them, by what is usual."""
        if len(self.runs) >= ENOUGH_RUNS:
            return min(self.runs), max(self.runs)
        return self.value * (1 - ASSUMED_NOISE), self.value * (1 + ASSUMED_NOISE)


def of_runs(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """The median of each figure over all runs that have it; its context is that of the last."""
    by_name: dict[str, list[Figure]] = {}
    for run in runs:
        for figure in run:
            by_name.setdefault(figure.name, []).append(figure)
    medians = []
    for figures in by_name.values():
        values = tuple(figure.value for figure in figures)
        medians.append(replace(figures[-1], value=statistics.median(values), runs=values))
    return medians


def verdict(now: Figure, before: Figure) -> str:
    """better, worse or same: the same unless their spans lie apart."""
    (low, high), (low_before, high_before) = now.span, before.span
    if low <= high_before and low_before <= high:
        return "same"
    return "better" if (now.value > before.value) == now.more_is_better else "worse"


def ratio_of_pairs(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float, float]:
    """How many times A is B, from runs that took turns.

    Returns (median of the ratios B / A of each turn, the smallest, the largest, with what confidence the true median
    lies between these two). Each turn is above or below the true median by the toss of a coin, so it lies outside only
    if all tosses fall alike: 1 - 2^(1-n), whatever the distribution.
    """
    ratios = [after / before for before, after in zip(a, b, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios), 1.0 - 2.0 ** (1 - len(ratios))


def short(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def load(text: str) -> dict[str, Figure]:
    """Figures by name, from what `dump` has written."""
    return {
        each["name"]: Figure(**{**each, "runs": tuple(each["runs"])})
        for each in json.loads(text)
        if "more_is_better" in each
    }


def dump(figures: Iterable[Figure], into: Path) -> None:
    """Write figures, in the order given."""
    into.parent.mkdir(exist_ok=True)
    into.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
