"""Prequential evaluation: a stream in time order, cut into steps, each of which is asked before it is learnt."""

from research.prequential.makers import FirstEncoder, Maker, NewModel, Trees
from research.prequential.policies import Policy, serving
from research.prequential.step_report import AgeReport, StepAnswers, StepHeadFigures, StepReport, answers
from research.prequential.steps import PrequentialStream, cut_into_steps

__all__ = [
    "AgeReport",
    "FirstEncoder",
    "Maker",
    "NewModel",
    "Policy",
    "PrequentialStream",
    "StepAnswers",
    "StepHeadFigures",
    "StepReport",
    "Trees",
    "answers",
    "cut_into_steps",
    "serving",
]
