"""The few figures by which two models are compared on the same newest interactions, labels and negatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stream_tgat.evaluation.releases.heads import Answers, answers_of
from stream_tgat.evaluation.releases.part import MeasuredPart
from stream_tgat.nn.model import Model
from stream_tgat.topology import Head
from stream_tgat.training.links import pooled_average_precision, score_links, spread
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.scoring import Graph

NEWEST = "newest"
"""What figures of such a part are called on a card, as in `links.newest.average_precision`."""

MOST_LINKS = 20_000
"""Interactions asked about, evenly spread: with so many, chance moves the average precision by some 0.002."""

LINKS_AT_ONCE = 200


@dataclass(frozen=True)
class HeadSummary:
    """One head. answers: questions with a label   rarer: of these, those of the rarer class

    auc, average_precision, brier: NaN where undefined, as with one class only, or where an answer is not a number
    """

    head: str
    answers: int
    rarer: int
    auc: float
    average_precision: float
    brier: float


@dataclass(frozen=True)
class ModelSummary:
    """One model. links: interactions asked about, each with one negative that was a destination before

    average_precision: of the links; NaN where a score is not a number
    """

    links: int
    average_precision: float
    heads: tuple[HeadSummary, ...]

    def by_figure(self) -> dict[str, float]:
        """As the gate has them: "links.average_precision", "heads.churn.auc"."""
        figures = {"links.count": float(self.links), "links.average_precision": self.average_precision}
        for head in self.heads:
            figures |= {
                f"heads.{head.head}.count": float(head.answers),
                f"heads.{head.head}.rarer": float(head.rarer),
                f"heads.{head.head}.auc": head.auc,
                f"heads.{head.head}.average_precision": head.average_precision,
                f"heads.{head.head}.brier": head.brier,
            }
        return figures

    def by_name(self) -> dict[str, float]:
        """As a card has them, with the part's name before the last word: "heads.churn.newest.auc"."""
        parts = {figure: figure.rpartition(".") for figure in self.by_figure()}
        return {f"{parts[figure][0]}.{NEWEST}.{parts[figure][2]}": value for figure, value in self.by_figure().items()}


def summarise(
    model: Model,
    log: TrainingLog,
    part: MeasuredPart,
    heads: Sequence[Head],
    seed: int,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> ModelSummary:
    """Measure a model on a part of a log.

    seed: of the negatives; the same seed, log and part ask every model the same
    progress: told (questions done, questions in all), of links, then of heads
    """
    graph = Graph.of(log.interactions, log.node_features, next(model.parameters()).device)
    asked = spread(slice(part.first, part.first + part.count), MOST_LINKS)
    negatives = RandomNegatives(log.interactions, seed)
    scores = score_links(model, graph, negatives, asked, 1, LINKS_AT_ONCE)
    finite = all(np.isfinite(each).all() for each in scores)
    answers = answers_of(model, log, part, heads, progress)
    return ModelSummary(
        len(asked),
        pooled_average_precision(*scores) if finite else float("nan"),
        tuple(summarise_head(name, each) for name, each in answers.items()),
    )


def summarise_head(name: str, answers: Answers) -> HeadSummary:
    """The few figures of one head."""
    truth, probability = answers.truth, answers.probability
    positives = int(truth.sum())
    rarer = min(positives, len(truth) - positives)
    if not np.isfinite(probability).all() or len(truth) == 0:
        return HeadSummary(name, len(truth), rarer, *[float("nan")] * 3)
    metrics = binary_metrics(truth, probability)
    brier = float(((probability - truth) ** 2).mean())
    return HeadSummary(name, len(truth), rarer, metrics.auc, metrics.average_precision, brier)
