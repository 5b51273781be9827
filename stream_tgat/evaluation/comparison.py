"""The few figures by which two models are compared on the same newest interactions, labels and negatives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from stream_tgat.evaluation.bootstrap import Figure, Paired, paired_replicates
from stream_tgat.evaluation.head_figures import HeadAnswers, answers_of
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.nn.model import Model
from stream_tgat.topology import Head
from stream_tgat.training.links import drawn_negatives, score_links, spread
from stream_tgat.training.log import TrainingLog
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.negatives import RandomNegatives
from stream_tgat.training.scoring import TemporalGraph

NEWEST = "newest"
"""What figures of such a part are called on a card, as in `links.newest.average_precision`."""

MOST_LINKS = 20_000
"""Interactions asked about, evenly spread: with so many, chance moves the average precision by some 0.002."""

FEWEST_LINKS = 100
"""With fewer of them the average precision says little, so that it has no say where models are compared by it."""

LINKS_AT_ONCE = 200

FEWEST_ROUNDS = 20
"""Of the bootstrap, in which figures must be defined for their spread to be told, to some 16 % of it."""


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

    def by_name(self) -> dict[str, float]:
        """As a card has them."""
        figures = {
            f"links.{NEWEST}.count": float(self.links),
            f"links.{NEWEST}.average_precision": self.average_precision,
        }
        for head in self.heads:
            at = f"heads.{head.head}.{NEWEST}"
            figures |= {
                f"{at}.count": float(head.answers),
                f"{at}.rarer": float(head.rarer),
                f"{at}.auc": head.auc,
                f"{at}.average_precision": head.average_precision,
                f"{at}.brier": head.brier,
            }
        return figures


@dataclass(frozen=True, eq=False)
class ModelAnswers:
    """What a model said to the questions of a part, to compare with another's to the same ones.

    links: truth 1 for what happened, 0 for its negative; probability: the logit; user: the source
    heads: by name
    """

    links: HeadAnswers
    heads: Mapping[str, HeadAnswers]

    def summary(self) -> ModelSummary:
        """The few figures that come of it."""
        truth, score = self.links.truth, self.links.probability
        finite = bool(np.isfinite(score).all())
        return ModelSummary(
            len(truth) // 2,
            float(average_precision_score(truth, score)) if finite and len(truth) else float("nan"),
            tuple(summarise_head(name, each) for name, each in self.heads.items()),
        )


def ask(
    model: Model,
    log: TrainingLog,
    part: MeasuredPart,
    heads: Sequence[Head],
    seed: int,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> ModelAnswers:
    """Put the questions of a part of a log to a model.

    seed: of the negatives; the same seed, log and part ask every model the same
    progress: told (questions done, questions in all), of the heads
    """
    return ModelAnswers(ask_links(model, log, part, seed), answers_of(model, log, part, heads, progress))


def ask_links(model: Model, log: TrainingLog, part: MeasuredPart, seed: int) -> HeadAnswers:
    """The part of `ask` that is about links."""
    graph = TemporalGraph.of(log.interactions, log.node_features, next(model.parameters()).device)
    asked = _links_of(slice(part.first, part.first + part.count))
    negatives = RandomNegatives(log.interactions, seed)
    positive, negative = score_links(model, graph, negatives, asked, 1, LINKS_AT_ONCE)
    return HeadAnswers(
        np.repeat([1.0, 0.0], len(asked)),
        np.concatenate([positive, negative[:, 0]]),
        np.tile(log.interactions.source[asked], 2),
    )


def link_questions(log: TrainingLog, places: slice, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `ask` asks about links in some places of a log: interactions [n] int64, and a negative of each [n] int64."""
    asked = _links_of(places)
    negatives = RandomNegatives(log.interactions, seed)
    return asked, drawn_negatives(negatives, log.interactions.time[asked], 1, LINKS_AT_ONCE)[:, 0]


def _links_of(places: slice) -> NDArray[np.int64]:
    return spread(places, MOST_LINKS)


def summarise_head(name: str, answers: HeadAnswers) -> HeadSummary:
    """The few figures of one head."""
    truth, probability = answers.truth, answers.probability
    positives = int(truth.sum())
    rarer = min(positives, len(truth) - positives)
    if not np.isfinite(probability).all() or len(truth) == 0:
        return HeadSummary(name, len(truth), rarer, *[float("nan")] * 3)
    metrics = binary_metrics(truth, probability)
    brier = float(((probability - truth) ** 2).mean())
    return HeadSummary(name, len(truth), rarer, metrics.auc, metrics.average_precision, brier)


@dataclass(frozen=True, eq=False)
class Chance:
    """How far chance moves the differences between two models: users are drawn, each with all that was asked of them.

    figures: as in "links.average_precision" or "heads.churn.auc"   replicates: [rounds, figures] float64, of one model
    less the other; NaN where a figure is undefined
    """

    figures: tuple[str, ...]
    replicates: NDArray[np.float64]

    def std_error(self, gains: Mapping[str, float]) -> float:
        """Standard error of the mean of some figures' differences, each times its sign in `gains`; NaN if not known.

        Also where they are defined together in fewer than FEWEST_ROUNDS.
        """
        if not gains or not set(gains) <= set(self.figures):
            return float("nan")
        columns = [self.figures.index(figure) for figure in gains]
        means = (self.replicates[:, columns] * np.array(list(gains.values()))).mean(1)
        finite = means[np.isfinite(means)]
        if len(finite) < FEWEST_ROUNDS:
            return float("nan")
        return float(finite.std(ddof=1))


def chance(one: ModelAnswers, other: ModelAnswers) -> Chance:
    """Of two models that were asked the same; of heads that both have. Answers that are no numbers have none."""
    pairs: dict[str, Paired] = {}
    if _finite(one.links, other.links):
        pairs["links.average_precision"] = _paired("average_precision", one.links, other.links)
    for name in (name for name in one.heads if name in other.heads):
        mine, theirs = one.heads[name], other.heads[name]
        if _finite(mine, theirs):
            pairs |= {f"heads.{name}.{figure}": _paired(figure, mine, theirs) for figure in _HEAD_FIGURES}
    return Chance(tuple(pairs), paired_replicates(list(pairs.values())))


_HEAD_FIGURES: tuple[Figure, ...] = ("auc", "average_precision", "brier")


def _finite(one: HeadAnswers, other: HeadAnswers) -> bool:
    return bool(np.isfinite(one.probability).all() and np.isfinite(other.probability).all())


def _paired(figure: Figure, one: HeadAnswers, other: HeadAnswers) -> Paired:
    return Paired(figure, one.truth, one.probability, other.probability, one.user)
