"""Boosted trees on hand-made features of the same past: the baseline that any model of the stream has to face.

Features of a question "will household h take up group g after time t" are recency and frequency counts of the
household, of the group and of the pair, from purchases strictly before t, and the size of the basket at t, which the
model sees too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.datasets.groceries import DAY_S, FEATURES, START, Groceries, Purchases, Targets

WINDOWS_D = (14, 28, 56, 112)


class PastCounts:
    """Counts of events per owner before a time, in O(log n) a question, for many questions at once.

    owner: int64 [n]   time: float64 [n], unix seconds
    """

    def __init__(self, owner: NDArray[np.int64], time: NDArray[np.float64], begin: float, end: float) -> None:
        self.begin, self.stride = begin, 4 * (end - begin + 1.0)
        self.axis = np.sort(owner * self.stride + (time - begin))

    def before(self, owner: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.int64]:
        """Events of each owner strictly before each time: int64 [B]."""
        low = np.searchsorted(self.axis, owner * self.stride - self.stride / 2)
        return np.searchsorted(self.axis, owner * self.stride + (time - self.begin), "left") - low

    def since(self, owner: NDArray[np.int64], time: NDArray[np.float64], nth: int = 1) -> NDArray[np.float64]:
        """Days since the nth-last event strictly before each time, NaN where there is none: float64 [B]."""
        at = np.searchsorted(self.axis, owner * self.stride + (time - self.begin), "left") - nth
        last = self.axis[np.maximum(at, 0)] - owner * self.stride
        exists = (at >= 0) & (last >= -self.stride / 2)
        return np.where(exists, (time - self.begin - last) / DAY_S, np.nan)


def past_features(bought: Purchases, of_group: NDArray[np.bool_], asked: Targets) -> NDArray[np.float64]:
    """Features of each question, from what lies strictly before its time: float64 [B, F], NaN where undefined."""
    begin, end = START, float(bought.time[-1])
    h, t = asked.household, asked.time
    baskets = np.unique(np.column_stack([bought.household, bought.time]), axis=0)
    everyone = np.zeros_like(h)
    group_rows = np.flatnonzero(of_group)
    items = PastCounts(bought.household, bought.time, begin, end)
    group = PastCounts(bought.household[group_rows], bought.time[group_rows], begin, end)
    pasts = [
        (items, h),
        (PastCounts(baskets[:, 0].astype(np.int64), baskets[:, 1], begin, end), h),
        (group, h),
        (PastCounts(np.zeros(len(group_rows), np.int64), bought.time[group_rows], begin, end), everyone),
    ]
    columns: list[NDArray[Any]] = [(t - begin) / DAY_S, group.before(h, t) / np.maximum(items.before(h, t), 1)]
    for past, owner in pasts:
        total = past.before(owner, t)
        columns += [total, *(total - past.before(owner, t - days * DAY_S) for days in WINDOWS_D)]
        columns += [past.since(owner, t, nth) for nth in (1, 2, 5)]
    here = _row_of_basket(bought, h, t)
    columns += [bought.fields[here, FEATURES.index(name)] for name in ("basket_items", "basket_value", "weekday")]
    return np.column_stack(columns).astype(np.float64)


def recent_interactions(
    bought: Purchases, household: NDArray[np.int64], time: NDArray[np.float64], window_s: float = 28 * DAY_S
) -> NDArray[np.float64]:
    """The trivial rule: how much each household bought in the `window_s` before each time: float64 [B]."""
    past = PastCounts(bought.household, bought.time, START, float(bought.time[-1]))
    return (past.before(household, time) - past.before(household, time - window_s)).astype(np.float64)


def _row_of_basket(bought: Purchases, household: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first row of each basket (household, time), which must exist: int64 [B]."""
    row = np.searchsorted(bought.time, time, "left")
    while (elsewhere := bought.household[row] != household).any():
        row = row + elsewhere
    return row


def boosted_probabilities(data: Groceries, group: str, cutoff: float, seed: int = 0) -> NDArray[np.float64]:
    """Probabilities of a group's targets, by trees fitted on the labels known at the cut-off: float64 [targets]."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    asked = data.targets[group]
    x = past_features(data.purchases, data.purchases.group[:, data.groups.index(group)], asked)
    known = asked.known <= cutoff
    if len(np.unique(asked.value[known])) < 2:
        return np.full(len(asked), asked.value[known].mean() if known.any() else np.nan)
    trees = HistGradientBoostingClassifier(
        max_iter=80, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=40, l2_regularization=5.0, random_state=seed
    )
    trees.fit(x[known], asked.value[known])
    return np.asarray(trees.predict_proba(x)[:, 1], np.float64)
