"""From one vector a node to scores of pairs: how a method without time answers questions that have one.

A node that training never saw has a zero vector. Only the activity features, if asked for, know the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from research.baselines.validation import VALIDATION_EVENTS, Validation
from research.baselines.visible import visible
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.activity import activity
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.training.negatives import AnyDestination, HistoricalNegatives

PairOperator = Literal["inner", "hadamard", "concatenated"]

OPERATORS: tuple[PairOperator, ...] = ("inner", "hadamard", "concatenated")
"""All of them: methods take the one that validates best, so that none looks weak for how its vectors are read."""


@dataclass(frozen=True, eq=False)
class PairInputs:
    """What is known of a pair: its vectors under an operator, then both activities where there is a history.

    table: [N, d] float32, a vector a node   operator: z_i·z_j as one number, z_i ⊙ z_j, or [z_i ‖ z_j]
    history: where activity is looked up; None: without activity
    """

    table: NDArray[np.float32]
    operator: PairOperator
    history: TemporalAdjacency | None = None

    def of(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Inputs of each pair [B] at a time [B], from interactions strictly before it: [B, F]."""
        one, other = (self.table[nodes].astype(np.float64) for nodes in (sources, destinations))
        match self.operator:
            case "inner":
                blocks = [(one * other).sum(1, keepdims=True)]
            case "hadamard":
                blocks = [one * other]
            case "concatenated":
                blocks = [one, other]
        if self.history is not None:
            for nodes in (sources, destinations):
                blocks.append(activity(times, *self.history.looked_back(nodes, times)).astype(np.float64))
        return np.concatenate(blocks, 1)


class StaticScorer:
    """Scores pairs by their inputs: by a classifier, or without one by the only input there is."""

    def __init__(self, inputs: PairInputs, classifier: Any = None) -> None:
        self.inputs = inputs
        self._classifier = classifier

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Logits of each candidate.

        sources: [B] int64   destinations: [B, C] int64, candidates   times: [B] float64
        Returns [B, C] float64.
        """
        candidates = destinations.shape[1]
        pair = np.repeat(sources, candidates), destinations.ravel(), np.repeat(times, candidates)
        if destinations.size == 0:
            return np.zeros(destinations.shape)
        inputs = self.inputs.of(*pair)
        logit = inputs[:, 0] if self._classifier is None else self._classifier.decision_function(inputs)
        return np.asarray(logit, np.float64).reshape(destinations.shape)


@dataclass(frozen=True)
class PairScoring:
    """How the vectors of two nodes become a score: by the operator that validates best, of those that are tried.

    activity: with the activity features of both   historical_share: of the negatives that a classifier learns from
    """

    operators: tuple[PairOperator, ...] = OPERATORS
    activity: bool = False
    historical_share: float = 0.0

    def best(self, task: LinkTask, tables: Sequence[NDArray[np.float32]], seed: int) -> StaticScorer:
        """Of every table [N, d] under every operator, the scorer that validates best; the first one among equals."""
        found = [self.scorer(task, table, operator, seed) for table in tables for operator in self.operators]
        if len(found) == 1:
            return found[0]
        seen, _, validation = visible(task)
        judge = Validation(seen, validation, VALIDATION_EVENTS, seed)
        return found[int(np.argmax([judge.average_precision(scorer) for scorer in found]))]

    def scorer(self, task: LinkTask, table: NDArray[np.float32], operator: PairOperator, seed: int) -> StaticScorer:
        """A scorer by vectors: σ(z_i·z_j) if they alone are asked, otherwise logistic regression on training pairs.

        It learns what happened in training from one negative each, at the same time: random, or whom the source met
        before. A positive pair should have a large inner product, log σ(z_i·z_j) being what skip-gram and autoencoders
        maximise.
        """
        inputs = PairInputs(table, operator, TemporalAdjacency(task.interactions) if self.activity else None)
        if operator == "inner" and not self.activity:
            return StaticScorer(inputs)
        seen, train, _ = visible(task)
        learnt = seen.select(train)
        if len(learnt) == 0:
            return StaticScorer(PairInputs(table, "inner"))
        then = PairInputs(table, operator, TemporalAdjacency(learnt, len(table)) if self.activity else None)
        drawn = AnyDestination(learnt, seed).draw(learnt.time, 1, (0,))
        drawn = HistoricalNegatives(learnt, seed).put(drawn, learnt, self.historical_share, (0,))[:, 0]
        x = np.concatenate([then.of(learnt.source, to, learnt.time) for to in (learnt.destination, drawn)])
        # Far more pairs than inputs, and inputs that go together: a few of Newton's steps do what hundreds of others
        # would.
        classifier = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky"))
        classifier.fit(x, np.repeat([1, 0], len(learnt)))
        return StaticScorer(inputs, classifier)
