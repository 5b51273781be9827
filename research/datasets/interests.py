"""The groceries as a task: which interest groups will a household take up in the 28 days after a basket?

An answer is known 28 days after its question, so the parts lie apart: train is asked on days 56-172, validation on days
200-234, test on days 262-337. Whoever learns at the first test question knows all answers of the other two.
"""

import numpy as np
from numpy.typing import NDArray

from research.datasets.groceries import DAY_S, FEATURES, START, Groceries, Purchases, Targets
from research.datasets.grocery_features import past_features
from research.labels.task import HeadQuestions, LabelTask, label_task
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.log import LabelSet, last_as_source

PART_DAYS = ((56, 172), (200, 234), (262, 337))
"""First and last day, counted from 0, of the questions of train, validation and test."""

BEGIN_OF_TEST = START + PART_DAYS[2][0] * DAY_S
"""Up to here text vectors may be fitted and everyday items found: unix seconds."""


def interest_task(data: Groceries) -> LabelTask:
    """One head per interest group. The interaction asked about is the last one of the basket; its features say of the
    whole basket how large it is, and whether the items in it are of a group.
    """
    interactions = _interactions(data)
    features = np.zeros((len(data.households) + len(data.items), data.vectors.shape[1]), np.float32)
    features[len(data.households) :] = data.vectors
    labels = {name: _labels(interactions, asked) for name, asked in data.targets.items()}
    parts = {name: _parts(asked) for name, asked in data.targets.items()}
    return label_task("groceries", interactions, features, labels, parts)


def edge_features(bought: Purchases) -> NDArray[np.float32]:
    """The features of purchases as the demo's topology defines them: [n, 11]."""
    field = dict(zip(FEATURES, bought.fields.T, strict=True))
    amounts = [np.clip(np.log1p(field[name]), -5, 5) for name in ("quantity", "value", "discount", "coupon")]
    basket = [np.log1p(field[name]) / 2 for name in ("basket_items", "basket_value")]
    return np.column_stack([*amounts, field["private_brand"], *basket, bought.group]).astype(np.float32)


class InterestFeatures:
    """The demo's hand-made features, for the trees: recency and frequency of household, group and pair."""

    def __init__(self, data: Groceries) -> None:
        self._data = data

    def __call__(self, task: LabelTask, target: HeadQuestions) -> NDArray[np.float64]:  # noqa: ARG002  # the data say it all
        """Of every question: [n, F]."""
        bought = self._data.purchases
        of_group = bought.group[:, self._data.groups.index(target.name)]
        return past_features(bought, of_group, self._data.targets[target.name])


def _interactions(data: Groceries) -> Interactions:
    bought = data.purchases
    return Interactions(bought.household, bought.item + len(data.households), bought.time, edge_features(bought))


def _labels(interactions: Interactions, asked: Targets) -> LabelSet:
    return LabelSet(last_as_source(interactions, asked.household, asked.time), asked.value, asked.known)


def _parts(asked: Targets) -> NDArray[np.int8]:
    day = np.floor((asked.time - START) / DAY_S)
    part = np.full(len(asked), -1, np.int8)
    for at, (first, last) in enumerate(PART_DAYS):
        part[(day >= first) & (day <= last)] = at
    return part
