"""Boosted trees on hand-made features of the same past: what any model of the stream has to face."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.labels.task import HeadQuestions, LabelTask
from stream_tgat.graph.activity import activity
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.training.metrics import binary_metrics

Features = Callable[[LabelTask, HeadQuestions], NDArray[np.floating]]
"""Of every question of a target: [n, F], NaN where undefined; from what is strictly earlier and the interaction."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Gradient boosting over each of some sets of features; head by head, the set that validates best is kept.

    The size of the trees is that of the demo's baseline, made for few positives.
    """

    features: tuple[Features, ...]
    name: str = "Boosted trees on the same past"
    rounds: int = 80
    learning_rate: float = 0.05
    leaves: int = 8
    least: int = 40
    l2: float = 5.0

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        return tuple(self._scores(task, target, seed) for target in task.targets)

    def _scores(self, task: LabelTask, target: HeadQuestions, seed: int) -> NDArray[np.float64]:
        truth = target.labels.value
        tried: list[tuple[float, NDArray[np.floating], NDArray[np.float64]]] = []
        for features in self.features:
            x = features(task, target)
            validated = self._fitted(x, truth, target.train, target.validation, seed)
            tried.append((binary_metrics(truth[target.validation], validated).auc, x, validated))
        _, x, validated = max(tried, key=lambda each: each[0])
        known = np.concatenate([target.train, target.validation])
        score: NDArray[np.float64] = self._fitted(x, truth, known, np.arange(len(truth)), seed)
        score[target.validation] = validated
        return score

    def _fitted(
        self,
        x: NDArray[np.floating],
        truth: NDArray[np.float64],
        learnt: NDArray[np.int64],
        asked: NDArray[np.int64],
        seed: int,
    ) -> NDArray[np.float64]:
        """Probabilities of some questions by what some answers teach; the base rate where they teach nothing."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        if len(np.unique(truth[learnt])) < 2:
            return np.full(len(asked), truth[learnt].mean() if len(learnt) else 0.5)
        trees = HistGradientBoostingClassifier(
            max_iter=self.rounds,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.least,
            l2_regularization=self.l2,
            early_stopping=False,
            random_state=seed,
        )
        told = ~np.isnan(x[learnt]).all(0)  # a feature that no answer has is refused
        trees.fit(x[np.ix_(learnt, told)], truth[learnt])
        return np.array(trees.predict_proba(x[np.ix_(asked, told)])[:, 1], np.float64)


def event_and_user(task: LabelTask, target: HeadQuestions) -> NDArray[np.float32]:
    """The interaction's features and the user's own: [n, E + F]."""
    event = target.labels.event
    own = np.zeros((len(event), 0), np.float32)
    if task.node_features is not None:
        own = task.node_features[task.interactions.source[event]]
    return np.concatenate([task.interactions.edge[event], own], 1)


def with_running_aggregates(task: LabelTask, target: HeadQuestions) -> NDArray[np.float32]:
    """`event_and_user`, activity, the last interaction's features and the mean over all of the past and over the last
    five: [n, 4 E + F + 3].
    """
    interactions, event = task.interactions, target.labels.event
    user, time = interactions.source[event], interactions.time[event]
    history = TemporalAdjacency(interactions, None if task.node_features is None else len(task.node_features))
    first, end = history.before(user, time)
    edge = interactions.edge[history.event].astype(np.float64)
    sums = np.concatenate([np.zeros((1, edge.shape[1])), np.cumsum(edge, 0)])

    def mean(begin: NDArray[np.int64]) -> NDArray[np.float64]:
        count = (end - begin)[:, None]
        return np.where(count > 0, (sums[end] - sums[begin]) / np.maximum(count, 1), np.nan)

    blocks = [mean(first), mean(np.maximum(first, end - 5)), mean(np.maximum(first, end - 1))]
    active = activity(time, *history.looked_back(user, time))
    return np.concatenate([event_and_user(task, target), active, *blocks], 1).astype(np.float32)
