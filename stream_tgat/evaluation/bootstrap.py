"""How sure a figure is, over the users that happened to be measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap. low, high: percentiles at the level   std_error: spread of the replicates

    rounds: replicates in which the figure was defined; all but the estimate are NaN for fewer than two
    """

    estimate: float
    low: float
    high: float
    std_error: float
    rounds: int


def user_bootstrap(
    truth: ArrayLike, score: ArrayLike, user: ArrayLike, seed: int = 0, rounds: int = 1000, level: float = 0.95
) -> Interval:
    """AUC, with confidence from users drawn with replacement, each with all its rows: rows of one user are no
    independent evidence, and drawing rows alone would make the interval too narrow.

    truth: [n] 0 or 1   score: [n]   user: [n], whose row it is, any integers
    """
    area = _Area(truth, score)
    return _bootstrap(area.weighted, user, seed, rounds, level)


Figure = Literal["auc", "average_precision", "brier"]


@dataclass(frozen=True, eq=False)
class Paired:
    """Two scores of the same rows, to be compared by a figure. All arrays [n].

    truth: 0 or 1   user: whose row it is, any integers
    """

    figure: Figure
    truth: ArrayLike
    score: ArrayLike
    other: ArrayLike
    user: ArrayLike


def paired_replicates(pairs: Sequence[Paired], seed: int = 0, rounds: int = 200) -> NDArray[np.float64]:
    """How far chance moves the differences of some figures, together: [rounds, pairs], `score` less `other`.

    In every round the same users are drawn for all pairs and both scores. NaN where a figure is undefined.
    """
    if not pairs:
        return np.zeros((rounds, 0))
    users, row_user = np.unique(np.concatenate([np.asarray(each.user) for each in pairs]), return_inverse=True)
    rows_of = np.split(row_user, np.cumsum([len(np.asarray(each.user)) for each in pairs])[:-1])
    areas = [[_FIGURES[each.figure](each.truth, scores) for scores in (each.score, each.other)] for each in pairs]
    random = np.random.default_rng(seed)
    found = np.full((rounds, len(pairs)), np.nan)
    for row in found if len(users) else ():
        drawn = np.bincount(random.integers(len(users), size=len(users)), minlength=len(users)).astype(np.float64)
        for at, (rows, (one, two)) in enumerate(zip(rows_of, areas, strict=True)):
            row[at] = one.weighted(drawn[rows]) - two.weighted(drawn[rows])
    return found


@dataclass(frozen=True, eq=False)
class HeadScores:
    """Scores of one head by one run. truth: [n] 0 or 1   score: [n]   user: [n], whose row it is, any integers"""

    truth: ArrayLike
    score: ArrayLike
    user: ArrayLike


def paired_mean_bootstrap(
    ones: Sequence[HeadScores], others: Sequence[HeadScores], seed: int = 0, rounds: int = 1000, level: float = 0.95
) -> Interval:
    """Mean AUC of some runs (heads, seeds) less that of others; in every round the same users are drawn for all."""
    return _mean_areas(
        [*ones, *others],
        lambda areas: float(np.mean(areas[: len(ones)]) - np.mean(areas[len(ones) :])),
        (seed, rounds, level),
    )


def mean_bootstrap(ones: Sequence[HeadScores], seed: int = 0, rounds: int = 1000, level: float = 0.95) -> Interval:
    """Mean AUC of some runs (heads, seeds); in every round the same users are drawn for all."""
    return _mean_areas(ones, lambda areas: float(np.mean(areas)), (seed, rounds, level))


def _mean_areas(
    every: Sequence[HeadScores], figure: Callable[[list[float]], float], drawing: tuple[int, int, float]
) -> Interval:
    """A figure of the AUC of each of some runs, NaN for none. drawing: seed, rounds and level of the bootstrap"""
    if not every:
        nowhere = float("nan")
        return Interval(nowhere, nowhere, nowhere, nowhere, 0)
    areas = [_Area(each.truth, each.score) for each in every]
    ends = np.cumsum([len(np.asarray(each.user)) for each in every])[:-1]

    def weighted(weight: NDArray[np.float64]) -> float:
        return figure([area.weighted(part) for area, part in zip(areas, np.split(weight, ends), strict=True)])

    return _bootstrap(weighted, np.concatenate([np.asarray(each.user) for each in every]), *drawing)


class _Area:
    """AUC of fixed scores under weights of the rows; sorted once, then linear in them."""

    def __init__(self, truth: ArrayLike, score: ArrayLike) -> None:
        scores = np.asarray(score, np.float64)
        self._order = np.argsort(scores, kind="stable")
        ordered = scores[self._order]
        self._truth = np.asarray(truth, np.float64)[self._order]
        self._starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, int)

    def weighted(self, weight: NDArray[np.float64]) -> float:
        """Share of (positive, negative) that are in the right order, ties half; NaN with one class only."""
        if len(self._order) == 0:
            return float("nan")
        weights = weight[self._order]
        positive = np.add.reduceat(weights * self._truth, self._starts)
        negative = np.add.reduceat(weights * (1 - self._truth), self._starts)
        below = np.cumsum(negative) - negative / 2
        pairs = positive.sum() * negative.sum()
        return float((positive * below).sum() / pairs) if pairs > 0 else float("nan")


class _Precision:
    """Average precision of fixed scores under weights of the rows; equal scores are taken together."""

    def __init__(self, truth: ArrayLike, score: ArrayLike) -> None:
        scores = np.asarray(score, np.float64)
        self._order = np.argsort(-scores, kind="stable")
        ordered = scores[self._order]
        self._truth = np.asarray(truth, np.float64)[self._order]
        self._ends = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True]) if len(ordered) else np.zeros(0, int)

    def weighted(self, weight: NDArray[np.float64]) -> float:
        """NaN without a positive."""
        weights = weight[self._order]
        positive = np.cumsum(weights * self._truth)[self._ends]
        every = np.cumsum(weights)[self._ends]
        if len(positive) == 0 or positive[-1] == 0:
            return float("nan")
        precision = positive / np.maximum(every, np.finfo(np.float64).tiny)
        return float((np.diff(positive, prepend=0.0) * precision).sum() / positive[-1])


class _SquaredError:
    """Brier score of fixed probabilities under weights of the rows."""

    def __init__(self, truth: ArrayLike, score: ArrayLike) -> None:
        self._error = (np.asarray(score, np.float64) - np.asarray(truth, np.float64)) ** 2

    def weighted(self, weight: NDArray[np.float64]) -> float:
        """NaN without a row."""
        return float((weight * self._error).sum() / weight.sum()) if weight.sum() > 0 else float("nan")


_FIGURES: Mapping[Figure, type[_Area] | type[_Precision] | type[_SquaredError]] = {
    "auc": _Area,
    "average_precision": _Precision,
    "brier": _SquaredError,
}


def figure_of(figure: Figure, truth: ArrayLike, score: ArrayLike) -> float:
    """The figure of some scores [n] of 0/1 truths [n]; NaN where it is undefined.

    >>> figure_of("auc", [0, 1, 1], [0.1, 0.1, 0.9])
    0.75
    """
    return _FIGURES[figure](truth, score).weighted(np.ones(np.size(truth)))


def _bootstrap(
    figure: Callable[[NDArray[np.float64]], float], user: ArrayLike, seed: int, rounds: int, level: float
) -> Interval:
    users, row_user = np.unique(np.asarray(user), return_inverse=True)
    random = np.random.default_rng(seed)
    found = []
    for _ in range(rounds if len(users) else 0):
        drawn = np.bincount(random.integers(len(users), size=len(users)), minlength=len(users))
        found.append(figure(drawn[row_user].astype(np.float64)))
    estimate = figure(np.ones(len(row_user)))
    replicates = np.array([value for value in found if np.isfinite(value)])
    if len(replicates) < 2:
        nowhere = float("nan")
        return Interval(estimate, nowhere, nowhere, nowhere, len(replicates))
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), float(replicates.std(ddof=1)), len(replicates))
