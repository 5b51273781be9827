"""Predictions about the user as the field measures them: one task, the same questions for every method."""

from research.labels.label_report import HeadReport, LabelFigures, LabelReport
from research.labels.methods import LabelMethod
from research.labels.protocol import compare, measure
from research.labels.task import HeadQuestions, LabelTask, QuestionPart, label_task

__all__ = [
    "HeadQuestions",
    "HeadReport",
    "LabelFigures",
    "LabelMethod",
    "LabelReport",
    "LabelTask",
    "QuestionPart",
    "compare",
    "label_task",
    "measure",
]
