"""A release's link prediction beside the rules that need no model, all asked about the same negatives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.link_prediction import (
    LinkProtocol,
    LinkReport,
    LinkScorer,
    LinkTask,
    NegativeKind,
    Part,
    evaluate,
)
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.evaluation.link_prediction.rules import DestinationRecency, EdgeBank, PairRecency
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.graph.splits import Split
from stream_tgat.nn.model import Model
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.scoring import TemporalGraph

RULES = (EdgeBank(), EdgeBank(windowed=True), DestinationRecency(), PairRecency())
RELEASE = "release"

Progress = Callable[[str, int, int], None]
"""Told (method, questions done, questions in all)."""

KINDS = (NegativeKind.RANDOM, NegativeKind.HISTORICAL, NegativeKind.INDUCTIVE)


@dataclass(frozen=True)
class LinkRow:
    """Figures of one method; "release" is the model that was asked for."""

    method: str
    report: LinkReport


def protocol(ranked: int | None, candidates: int, seed: int) -> LinkProtocol:
    """The protocol of the tables, without those negatives that only matter when encoders are compared."""
    return LinkProtocol(KINDS, candidates, ranked, seed=seed)


def link_rows(
    model: Model, log: TrainingLog, part: MeasuredPart, how: LinkProtocol, progress: Progress = lambda *_: None
) -> tuple[LinkRow, ...]:
    """The release's figures, then each rule's. A node is unseen if it is in no interaction before the part."""
    task = link_task_of(log, part)
    ranked = part.count if how.ranked is None else min(how.ranked, part.count)
    total = part.count + ranked

    def row(name: str, scorer: LinkScorer) -> LinkRow:
        counted = _Counted(scorer, lambda done: progress(name, done, total))
        return LinkRow(name, evaluate(task, counted, Part.TEST, how))

    scorer = ModelScorer(model, TemporalGraph.of(log.interactions, log.node_features))
    return (row(RELEASE, scorer), *(row(rule.name, rule.fit(task, how.seed)) for rule in RULES))


def link_task_of(log: TrainingLog, part: MeasuredPart) -> LinkTask:
    """All that is before the part as training, the part as test."""
    count = len(log.interactions)
    nodes = log.interactions.node_count if log.node_features is None else len(log.node_features)
    split = Split(slice(0, part.first), slice(part.first, part.first), slice(part.first, count))
    return LinkTask("log", log.interactions, split, np.zeros(nodes, np.bool_), log.node_features)


class _Counted:
    """A scorer that tells how many rows it was asked about."""

    def __init__(self, scorer: LinkScorer, on_rows: Callable[[int], None]) -> None:
        self._scorer = scorer
        self._on_rows = on_rows
        self._done = 0

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.floating]:
        """As the scorer says."""
        found = self._scorer.scores(sources, destinations, times)
        self._done += len(sources)
        self._on_rows(self._done)
        return found
