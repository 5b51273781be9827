"""Classifiers on activity and pair features alone: what can be known of a pair without any embedding."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from research.baselines.validation import Validation
from research.baselines.visible import visible
from stream_tgat.evaluation.link_prediction import ABSENT, EvaluationNegatives, LinkScorer, LinkTask, NegativeKind
from stream_tgat.evaluation.link_prediction.meetings import Meetings
from stream_tgat.graph import activity
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split
from stream_tgat.training.negatives import HistoricalNegatives

FEATURE_NAMES = (
    "log_degree_source", "log_since_last_source", "log_since_fifth_last_source",
    "log_degree_destination", "log_since_last_destination", "log_since_fifth_last_destination",
    "log_meetings", "log_since_last_meeting", "log_others_since_last_meeting",
)  # fmt: skip


class PairFeatures:
    """Features of pairs at a time, from what is strictly earlier in some interactions."""

    def __init__(self, interactions: Interactions, node_count: int) -> None:
        self._history = TemporalAdjacency(interactions, node_count)
        self._meetings = Meetings(interactions)

    def of(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """FEATURE_NAMES of each candidate; −1 for what is counted or timed since something that has never happened.

        Others are the source's interactions later than the last meeting, with whomever.

        sources: [B]   destinations: [B, C]   times: [B]
        Returns [B, C, 9].
        """
        now = np.broadcast_to(times[:, None], destinations.shape)
        result = np.empty((*destinations.shape, len(FEATURE_NAMES)), np.float32)
        result[..., 0:3] = self._activity(sources, times)[:, None]
        result[..., 3:6] = self._activity(destinations.ravel(), now.ravel()).reshape(*destinations.shape, 3)
        count, last = self._meetings.before(sources[:, None], destinations, now)
        result[..., 6] = np.log1p(count)
        met = count > 0
        result[..., 7] = np.where(met, np.log1p(np.where(met, now - last, 0.0)), activity.ABSENT)
        others = self._others_since(sources, times, np.where(met, last, -np.inf))
        result[..., 8] = np.where(met, np.log1p(others), activity.ABSENT)
        return result

    def _others_since(
        self, sources: NDArray[np.int64], times: NDArray[np.float64], last: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Interactions of each source [B] later than some times [B, C] and strictly before now [B]: [B, C]."""
        _, now = self._history.before(sources, times)
        just_after = np.nextafter(last, np.inf)
        _, then = self._history.before(np.repeat(sources, last.shape[1]), just_after.ravel())
        return now[:, None] - then.reshape(last.shape)

    def _activity(self, nodes: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.float32]:
        return activity.activity(times, *self._history.looked_back(nodes, times))


@dataclass(frozen=True)
class TreeSize:
    """Of boosted trees. least: examples in a leaf"""

    rounds: int
    learning_rate: float
    leaves: int
    least: int

    def trees(self, seed: int) -> "_Classifier":
        """Not fitted yet."""
        trees: _Classifier = HistGradientBoostingClassifier(
            max_iter=self.rounds,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.least,
            early_stopping=False,
            random_state=seed,
        )
        return trees


TREE_SIZES = (TreeSize(200, 0.05, 31, 100), TreeSize(300, 0.03, 15, 200))
"""For much data and for less."""


@dataclass(frozen=True)
class HandMade:
    """A classifier of the features, fitted to the learnt interactions and other destinations at the same times.

    negatives: per positive, random ones   historical_share: of these, replaced by whom the source met before
    at_most: positives to fit on, evenly spread over time   sizes: of trees, of which those that validate best are kept
    Features of training are those of the learnt interactions alone; scores use all that is strictly earlier.
    """

    classifier: Literal["mlp", "trees"]
    negatives: int = 5
    historical_share: float = 0.0
    at_most: int = 100_000
    sizes: tuple[TreeSize, ...] = TREE_SIZES

    @property
    def name(self) -> str:
        """As tables have it."""
        return {"mlp": "MLP on features", "trees": "Boosted trees on features"}[self.classifier]

    def fit(self, task: LinkTask, seed: int) -> LinkScorer:
        """Fit the classifier; of several, the one that validates best is kept."""
        x, y = self._examples(task, seed)
        features = PairFeatures(task.interactions, task.node_count)
        scorers = []
        with warnings.catch_warnings():
            # The number of epochs is chosen, not a limit that something failed to reach.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for classifier in self._classifiers(seed):
                classifier.fit(x, y)
                scorers.append(FittedClassifier(features, classifier))
        if len(scorers) == 1:
            return scorers[0]
        seen, _, validation = visible(task)
        judge = Validation(seen, validation, None, seed)
        return scorers[int(np.argmax([judge.average_precision(scorer) for scorer in scorers]))]

    def _classifiers(self, seed: int) -> "list[_Classifier]":
        """Those to choose from, not fitted yet."""
        if self.classifier == "trees":
            return [size.trees(seed) for size in self.sizes]
        layers = MLPClassifier((64, 64), batch_size=512, learning_rate_init=3e-3, max_iter=8, random_state=seed)
        return [make_pipeline(StandardScaler(), layers)]

    def _examples(self, task: LinkTask, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Features and truths of pairs that are learnt from: [n, 9] and [n]."""
        learnt, count = task.learnt, len(task.learnt)
        events = np.arange(min(count, self.at_most)) * count // max(min(count, self.at_most), 1)
        # Drawn as in evaluation, a source's other destinations of that time excluded, but from what is learnt alone.
        alone = LinkTask(task.name, learnt, Split(slice(0, count), slice(count, count), slice(count, count)),
                         np.zeros(task.node_count, np.bool_))  # fmt: skip
        drawn = EvaluationNegatives(alone, seed).draw(NegativeKind.RANDOM, events, self.negatives)
        happened = learnt.select(events)
        drawn = HistoricalNegatives(learnt, seed).put(drawn, happened, self.historical_share, (0,))
        candidates = np.concatenate([happened.destination[:, None], drawn], 1)
        features = PairFeatures(learnt, task.node_count)
        x = features.of(happened.source, np.maximum(candidates, 0), happened.time)
        y = np.broadcast_to(np.arange(candidates.shape[1]) == 0, candidates.shape).astype(np.int64)
        exists = candidates != ABSENT
        return x[exists], y[exists]


class _Classifier(Protocol):
    def fit(self, x: Any, y: Any, /) -> Any: ...

    def predict_proba(self, x: Any, /) -> Any: ...


class FittedClassifier:
    """Log-odds by a fitted classifier, finite also where it is certain."""

    def __init__(self, features: PairFeatures, classifier: _Classifier) -> None:
        self._features = features
        self._classifier = classifier

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Log-odds: [B, C]."""
        if destinations.size == 0:
            return np.zeros(destinations.shape)
        x = self._features.of(sources, destinations, times).reshape(-1, len(FEATURE_NAMES))
        no, yes = np.clip(self._classifier.predict_proba(x).astype(np.float64), np.finfo(np.float64).tiny, 1).T
        return np.asarray(np.log(yes) - np.log(no)).reshape(destinations.shape)
