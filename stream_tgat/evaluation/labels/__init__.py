"""Predictions about the user as the field measures them: one task, the same questions for every method."""

from stream_tgat.evaluation.labels.methods import LabelMethod
from stream_tgat.evaluation.labels.protocol import compare, measure
from stream_tgat.evaluation.labels.report import Figures, HeadReport, LabelReport
from stream_tgat.evaluation.labels.task import LabelTask, Part, Target, label_task

__all__ = [
    "Figures",
    "HeadReport",
    "LabelMethod",
    "LabelReport",
    "LabelTask",
    "Part",
    "Target",
    "compare",
    "label_task",
    "measure",
]
