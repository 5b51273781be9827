"""What was measured of one method on a task of labels, as values that can be written down."""

from dataclasses import dataclass

import numpy as np

from research.labels.task import QuestionPart
from stream_tgat.evaluation.bootstrap import Interval


@dataclass(frozen=True)
class LabelFigures:
    """Of one head on one part. count: questions; base_rate: share of positives; auc: with users drawn anew."""

    part: QuestionPart
    count: int
    base_rate: float
    auc: Interval
    average_precision: float


@dataclass(frozen=True)
class HeadReport:
    """Of one head. scores: those of the test questions, in order, by which methods are compared question by question"""

    head: str
    validation: LabelFigures
    test: LabelFigures
    scores: tuple[float, ...]


@dataclass(frozen=True)
class LabelReport:
    """A method on a task with one seed."""

    task: str
    method: str
    seed: int
    heads: tuple[HeadReport, ...]

    def mean_auc(self, part: QuestionPart = QuestionPart.TEST) -> float:
        """Over heads."""
        chosen = (head.test if part is QuestionPart.TEST else head.validation for head in self.heads)
        return float(np.mean([figures.auc.estimate for figures in chosen]))
