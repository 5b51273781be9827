"""The protocol: every method is asked the same questions in the order of time, and judged by the same figures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.evaluation.link_prediction import figures
from stream_tgat.evaluation.link_prediction.link_report import LinkReport, MethodReport, PairFigures, RankFigures
from stream_tgat.evaluation.link_prediction.methods import LinkMethod, LinkScorer
from stream_tgat.evaluation.link_prediction.negatives import ABSENT, EvaluationNegatives, NegativeKind
from stream_tgat.evaluation.link_prediction.task import Group, LinkTask, Part


@dataclass(frozen=True)
class LinkProtocol:
    """How to evaluate.

    kinds: of negatives, one negative of each per positive   candidates: sampled destinations per ranked positive
    ranked: rank at most so many positives, evenly spread over the part; None: all; 0: none
    batch_size: of questions, and of the batch-mean average precision   seed: of the negatives, not of the methods
    """

    kinds: tuple[NegativeKind, ...] = tuple(NegativeKind)
    candidates: int = 100
    ranked: int | None = None
    batch_size: int = 200
    seed: int = 0


STANDARD = LinkProtocol()


def measure(task: LinkTask, method: LinkMethod, seed: int, protocol: LinkProtocol = STANDARD) -> MethodReport:
    """Fit a method and evaluate it: on validation, then on test at the threshold that validation chose."""
    scorer = method.fit(task, seed)
    validation = evaluate(task, scorer, Part.VALIDATION, protocol)
    test = evaluate(task, scorer, Part.TEST, protocol, validation.threshold)
    return MethodReport(method.name, seed, validation, test)


def evaluate(
    task: LinkTask, scorer: LinkScorer, part: Part, protocol: LinkProtocol = STANDARD, threshold: float | None = None
) -> LinkReport:
    """Ask a scorer about a part of a task.

    threshold: a score above it means yes. Without one, validation chooses that which is best against random negatives,
    as the scores of simple rules have no natural zero; a test never chooses, its accuracies are then NaN.
    A scorer with a state must be asked about validation before it is asked about test.
    """
    negatives = EvaluationNegatives(task, protocol.seed)
    events = task.events(part)
    answers = _ask(task, scorer, negatives, events, protocol)
    random = answers.of(NegativeKind.RANDOM)
    if threshold is None:
        threshold = figures.best_threshold(*random) if part is Part.VALIDATION else float("nan")
    groups = {group: task.in_group(events, group) for group in Group}
    return LinkReport(
        task=task.name,
        part=part,
        threshold=threshold,
        never_seen=answers.never_seen,
        pairs=tuple(
            _pair_figures(answers, group, members, kind, threshold, protocol.batch_size)
            for group, members in groups.items()
            for kind in protocol.kinds
        ),
        ranks=tuple(_rank_figures(answers, group, members) for group, members in groups.items() if len(answers.ranked)),
    )


@dataclass(frozen=True, eq=False)
class _Answers:
    """Scores of a part's n interactions.

    positive: [n]   negative: [n, kinds], NaN where there is no such negative   never_seen: share, NaN if not asked for
    ranked: [r], which interactions were ranked   rank: [r], NaN where there was no candidate
    """

    kinds: tuple[NegativeKind, ...]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    never_seen: float
    ranked: NDArray[np.int64]
    rank: NDArray[np.float64]

    def of(
        self, kind: NegativeKind, members: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positives and their negatives of a kind, where there is one."""
        if kind not in self.kinds:
            return np.zeros(0), np.zeros(0)
        negative = self.negative[:, self.kinds.index(kind)]
        exists = ~np.isnan(negative) if members is None else ~np.isnan(negative) & members
        return self.positive[exists], negative[exists]


def _ask(
    task: LinkTask,
    scorer: LinkScorer,
    negatives: EvaluationNegatives,
    events: NDArray[np.int64],
    protocol: LinkProtocol,
) -> _Answers:
    ranked = _spread(len(events), protocol.ranked)
    positive = np.zeros(len(events))
    negative = np.full((len(events), len(protocol.kinds)), np.nan)
    rank = np.full(len(ranked), np.nan)
    never_seen = []
    for start in range(0, len(events), protocol.batch_size):
        batch = slice(start, min(start + protocol.batch_size, len(events)))
        asked = events[batch]
        drawn = [negatives.draw(kind, asked, 1) for kind in protocol.kinds]
        happened = task.interactions.destination[asked][:, None]
        scores = _scores(task, scorer, asked, np.concatenate([happened, *drawn], 1))
        positive[batch], negative[batch] = scores[:, 0], scores[:, 1:]
        if NegativeKind.RANDOM in protocol.kinds:
            random = drawn[protocol.kinds.index(NegativeKind.RANDOM)]
            never_seen.append(negatives.never_seen(asked, random)[random != ABSENT])
        within = slice(*np.searchsorted(ranked, [batch.start, batch.stop]))
        if within.stop > within.start:
            rows = ranked[within]
            others = negatives.draw(NegativeKind.RANDOM, events[rows], protocol.candidates)
            rank[within] = figures.ranks(positive[rows], _scores(task, scorer, events[rows], others))
    share = float(np.concatenate(never_seen).mean()) if sum(map(len, never_seen)) else float("nan")
    return _Answers(protocol.kinds, positive, negative, share, ranked, rank)


def _scores(
    task: LinkTask, scorer: LinkScorer, events: NDArray[np.int64], destinations: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Scores of destinations [B, C] at the time of interactions [B]; NaN for ABSENT, of which no scorer is asked."""
    interactions = task.interactions
    exists = destinations != ABSENT
    filled = np.where(exists, destinations, interactions.destination[events][:, None])
    scores = np.asarray(scorer.scores(interactions.source[events], filled, interactions.time[events]), np.float64)
    if scores.shape != filled.shape:
        raise DataError(f"{task.name}: scores have the shape {scores.shape}, candidates {filled.shape}")
    if not np.isfinite(scores).all():
        raise DataError(f"{task.name}: a score is not finite; a scorer must answer every question with a number")
    return np.where(exists, scores, np.nan)


def _pair_figures(
    answers: _Answers, group: Group, members: NDArray[np.bool_], kind: NegativeKind, threshold: float, batch_size: int
) -> PairFigures:
    positive, negative = answers.of(kind, members)
    return PairFigures(
        group=group,
        negatives=kind,
        count=len(positive),
        average_precision=figures.average_precision(positive, negative),
        batch_average_precision=figures.batch_average_precision(positive, negative, batch_size),
        auc=figures.auc(positive, negative),
        accuracy=figures.accuracy(positive, negative, threshold),
    )


def _rank_figures(answers: _Answers, group: Group, members: NDArray[np.bool_]) -> RankFigures:
    rank = answers.rank[members[answers.ranked]]
    rank = rank[~np.isnan(rank)]
    if len(rank) == 0:
        return RankFigures(group, 0, float("nan"), float("nan"))
    return RankFigures(group, len(rank), float((1 / rank).mean()), float((rank <= 10).mean()))


def _spread(count: int, at_most: int | None) -> NDArray[np.int64]:
    """Places of [0, count), at most so many, evenly spread."""
    if at_most is None or count <= at_most:
        return np.arange(count)
    return np.arange(at_most) * count // at_most
