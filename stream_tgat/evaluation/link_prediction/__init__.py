"""Link prediction as the field measures it: one task, the same negatives and the same figures for every method."""

from stream_tgat.evaluation.link_prediction.link_report import LinkReport, MethodReport, PairFigures, RankFigures
from stream_tgat.evaluation.link_prediction.methods import LinkMethod, LinkScorer
from stream_tgat.evaluation.link_prediction.negatives import ABSENT, EvaluationNegatives, NegativeKind
from stream_tgat.evaluation.link_prediction.protocol import STANDARD, LinkProtocol, evaluate, measure
from stream_tgat.evaluation.link_prediction.task import Group, LinkTask, Part, link_task

__all__ = [
    "ABSENT",
    "STANDARD",
    "EvaluationNegatives",
    "Group",
    "LinkMethod",
    "LinkProtocol",
    "LinkReport",
    "LinkScorer",
    "LinkTask",
    "MethodReport",
    "NegativeKind",
    "PairFigures",
    "Part",
    "RankFigures",
    "evaluate",
    "link_task",
    "measure",
]
