"""Predictions about the user as the field measures them: one task, the same questions for every method."""

from research.labels.label_report import Figures, HeadReport, LabelReport
from research.labels.methods import LabelMethod
from research.labels.protocol import compare, measure
from research.labels.task import LabelTask, Part, Target, label_task

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
