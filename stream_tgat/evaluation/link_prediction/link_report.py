"""What was measured of one method on one part of a task, as values that can be written down."""

from dataclasses import dataclass

from stream_tgat.evaluation.link_prediction.negatives import NegativeKind
from stream_tgat.evaluation.link_prediction.task import Group, Part


@dataclass(frozen=True)
class PairFigures:
    """Positives of a group, each against one negative of a kind. Figures lie in [0, 1], NaN where undefined.

    count: positives for which there is such a negative; the others are left out
    average_precision: of all pairs pooled   batch_average_precision: mean over batches, as DyGLib reports it
    accuracy: at the report's threshold
    """

    group: Group
    negatives: NegativeKind
    count: int
    average_precision: float
    batch_average_precision: float
    auc: float
    accuracy: float


@dataclass(frozen=True)
class RankFigures:
    """Positives of a group, each among sampled destinations; equal scores share the mean of their ranks.

    count: positives ranked   mrr: mean of 1 / rank   hits_at_10: share of ranks up to 10
    """

    group: Group
    count: int
    mrr: float
    hits_at_10: float


@dataclass(frozen=True)
class LinkReport:
    """All figures of a scorer on a part.

    threshold: of the accuracies; NaN if none was given
    never_seen: share of random negatives that were no destination before; NEVER_SEEN tells how easy such are
    """

    task: str
    part: Part
    threshold: float
    never_seen: float
    pairs: tuple[PairFigures, ...]
    ranks: tuple[RankFigures, ...]

    def pair(self, negatives: NegativeKind = NegativeKind.RANDOM, group: Group = Group.ALL) -> PairFigures:
        """Figures against one kind of negatives; KeyError if it was not asked for."""
        for each in self.pairs:
            if each.negatives is negatives and each.group is group:
                return each
        raise KeyError((negatives, group))

    def rank(self, group: Group = Group.ALL) -> RankFigures:
        """Ranking figures; KeyError if they were not asked for."""
        for each in self.ranks:
            if each.group is group:
                return each
        raise KeyError(group)


@dataclass(frozen=True)
class MethodReport:
    """A method on a task with one seed: validation, and test at the threshold that validation chose."""

    method: str
    seed: int
    validation: LinkReport
    test: LinkReport
