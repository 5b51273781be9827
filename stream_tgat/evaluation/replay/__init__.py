"""A stream replayed in time order, cut into steps: which model serves in each, and what that is worth."""

from stream_tgat.evaluation.replay.makers import FirstEncoder, Maker, NewModel, Trees
from stream_tgat.evaluation.replay.policies import Policy, serving
from stream_tgat.evaluation.replay.report import AgeReport, Answers, HeadFigures, StepReport, answers
from stream_tgat.evaluation.replay.stream import Replay, replay

__all__ = [
    "AgeReport",
    "Answers",
    "FirstEncoder",
    "HeadFigures",
    "Maker",
    "NewModel",
    "Policy",
    "Replay",
    "StepReport",
    "Trees",
    "answers",
    "replay",
    "serving",
]
