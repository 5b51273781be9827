"""Simple rules that answer the questions a model is asked, from what is strictly earlier, with nothing to train.

Rules for links are those of the tables (`link_prediction.rules`). Rules for heads read a user's past answers or
activity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.link_figures import RULES, link_task_of
from stream_tgat.evaluation.link_prediction import LinkScorer
from stream_tgat.evaluation.link_prediction.rules import WINDOW_SHARE
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.training.log import LabelSet, TrainingLog


@dataclass(frozen=True, eq=False)
class RuleInputs:
    """What a rule for a head may look up.

    labels: all of the head's, each used once it is known   base_rate: of those known before `begin`, .5 for none
    window_s: seconds that "lately" is
    """

    log: TrainingLog
    history: TemporalAdjacency
    labels: LabelSet
    base_rate: float
    window_s: float

    def asked(self, event: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """User and time of questions [n]."""
        return self.log.interactions.source[event], self.log.interactions.time[event]


class Pasts:
    """Of a log, as it was when a part of it began."""

    def __init__(self, log: TrainingLog, part: MeasuredPart) -> None:
        self._log = log
        self._begin = part.begin
        self._history = TemporalAdjacency(log.interactions)
        before = log.interactions.time[: part.first]
        self._window_s = float(before[-1] - np.quantile(before, 1 - WINDOW_SHARE)) if len(before) else np.inf

    def of(self, labels: LabelSet) -> RuleInputs:
        """For a head with these labels."""
        value = labels.value[labels.known < self._begin]
        base_rate = float(value.mean()) if len(value) else 0.5
        return RuleInputs(self._log, self._history, labels, base_rate, self._window_s)


@dataclass(frozen=True)
class HeadRule:
    """A rule for a head. scores: of the questions asked at interactions [n], higher means likelier: [n] float64

    is_probability: whether the scores are such
    """

    name: str
    scores: Callable[[RuleInputs, NDArray[np.int64]], NDArray[np.float64]]
    is_probability: bool


def answers_so_far(past: RuleInputs, event: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the user's own answers, known before the question, that are true; the base rate counts as one more."""
    users, times = past.asked(event)
    head_tasks, _ = past.asked(past.labels.event)
    moments = np.unique(past.labels.known)
    key = head_tasks * (len(moments) + 1) + np.searchsorted(moments, past.labels.known)
    order = np.argsort(key, kind="stable")
    true = np.concatenate([[0.0], np.cumsum(past.labels.value[order])])
    first = np.searchsorted(key[order], users * (len(moments) + 1), "left")
    end = np.searchsorted(key[order], users * (len(moments) + 1) + np.searchsorted(moments, times, "left"), "left")
    return np.asarray((true[end] - true[first] + past.base_rate) / (end - first + 1))


def activity(past: RuleInputs, event: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many interactions the user had lately."""
    users, times = past.asked(event)
    recent = past.history.before(users, times)[1] - past.history.before(users, times - past.window_s)[1]
    return recent.astype(np.float64)


def base_rate(past: RuleInputs, event: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for all."""
    return np.full(len(event), past.base_rate)


HEAD_RULES = (
    HeadRule("own answers so far", answers_so_far, True),
    HeadRule("busier lately, likelier", activity, False),
    HeadRule("busier lately, less likely", lambda past, event: -activity(past, event), False),
    HeadRule("same for all", base_rate, True),
)


@dataclass(frozen=True, eq=False)
class LinkRule:
    """A rule for links, ready to be asked."""

    name: str
    scorer: LinkScorer

    def scores(self, log: TrainingLog, event: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of interactions [n] as they happened, then of each with another destination: [2n]."""
        happened = log.interactions
        pairs = np.stack([happened.destination[event], other], 1)
        scores = self.scorer.scores(happened.source[event], pairs, happened.time[event])
        return np.asarray(scores, np.float64).T.ravel()


def link_rules(log: TrainingLog, part: MeasuredPart) -> Sequence[LinkRule]:
    """All of them, as they are when a part of a log begins."""
    task = link_task_of(log, part)
    return [LinkRule(rule.name, rule.fit(task, 0)) for rule in RULES]
