"""Which step's model serves in a step."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from research.prequential.makers import ScoresByHead
from research.prequential.steps import PrequentialStream
from stream_tgat.training.metrics import binary_metrics


class Policy(StrEnum):
    """What is done when a step begins."""

    FIRST = "the first for ever"
    SCHEDULE = "retrained"
    GATE = "retrained, with a gate"


def serving(policy: Policy, stream: PrequentialStream, scores: Sequence[ScoresByHead]) -> tuple[int, ...]:
    """For each step, the step whose model serves in it. scores: of each step's model"""
    steps = range(len(stream.cuts))
    match policy:
        case Policy.FIRST:
            return tuple(0 for _ in steps)
        case Policy.SCHEDULE:
            return tuple(steps)
        case Policy.GATE:
            chosen = [0]
            for step in steps[1:]:
                serves = chosen[-1]
                chosen.append(step if _is_better(stream, step, serves, scores[step], scores[serves]) else serves)
            return tuple(chosen)


def _is_better(stream: PrequentialStream, step: int, serves: int, candidate: ScoresByHead, other: ScoresByHead) -> bool:
    """Whether the mean AUC is higher on what neither has learnt: the candidate's validation, of answers that the
    serving model's step did not know. False where that holds no head with both classes.
    """
    differences = []
    for target, one, two in zip(stream.task(step).targets, candidate, other, strict=True):
        held_out = target.validation[target.labels.known[target.validation] > stream.cuts[serves]]
        truth = target.labels.value[held_out]
        if len(np.unique(truth)) == 2:
            areas = [binary_metrics(truth, score[held_out]).auc for score in (one, two)]
            differences.append(areas[0] - areas[1])
    return bool(differences) and float(np.mean(differences)) > 0.0
