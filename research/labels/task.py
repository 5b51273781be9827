"""A task of predictions about the user: what is asked, when each answer becomes known, and which part is which.

A question is about the user of an interaction at its time. Nothing is known at the cut-off but the answers whose time
has come by then; what a method gets to see is `LabelTask.at_cutoff`, in which all others are gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split
from stream_tgat.training.log import LabelSet

LINK_VALIDATION = 0.15
"""Newest share of the interactions before the cut-off, by which an encoder's training is stopped."""


class QuestionPart(StrEnum):
    """What a question is for."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, eq=False)
class HeadQuestions:
    """The questions of one head.

    labels: one per (user, time), by time; a value is NaN where it is hidden
    train, validation, test: places in them, apart from each other; a question may be in none
    """

    name: str
    labels: LabelSet
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    def part(self, part: QuestionPart) -> NDArray[np.int64]:
        """Places of a part."""
        match part:
            case QuestionPart.TRAIN:
                return self.train
            case QuestionPart.VALIDATION:
                return self.validation
            case QuestionPart.TEST:
                return self.test


@dataclass(frozen=True, eq=False)
class LabelTask:
    """Interactions and the questions about their users.

    cutoff: seconds; encoders learn from what is strictly earlier, heads from answers known by then; every test question
    is asked then or later   node_features: [N, F] float32, or None
    """

    name: str
    interactions: Interactions
    node_features: NDArray[np.float32] | None
    cutoff: float
    targets: tuple[HeadQuestions, ...]

    def __post_init__(self) -> None:
        """Refuse what would let a method see an answer before its time."""
        for target in self.targets:
            self._check(target)

    def _check(self, target: HeadQuestions) -> None:
        labels, where = target.labels, f"{self.name}, {target.name}"
        asked = self.interactions.time[labels.event]
        users = self.interactions.source[labels.event]
        if len(np.unique(np.column_stack([users, asked]), axis=0)) < len(labels):
            raise DataError(f"{where}: a user is asked about twice at one time; one target per (user, time)")
        if np.any(labels.known < asked):
            raise DataError(f"{where}: an answer is known before it is asked for")
        learnt = np.concatenate([target.train, target.validation])
        if len(np.unique(np.concatenate([learnt, target.test]))) < len(learnt) + len(target.test):
            raise DataError(f"{where}: a question is in two parts")
        if np.any(labels.known[learnt] > self.cutoff):
            raise DataError(f"{where}: an answer of train or validation is known only after the cut-off")
        if np.any(asked[target.test] < self.cutoff):
            raise DataError(f"{where}: a test question is asked before the cut-off")

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the targets, in order."""
        return tuple(target.name for target in self.targets)

    def users(self, target: HeadQuestions, part: QuestionPart) -> NDArray[np.int64]:
        """Whom a part's questions are about: [n] int64."""
        return self.interactions.source[target.labels.event[target.part(part)]]

    def at_cutoff(self) -> "LabelTask":
        """The task as a method sees it: every answer in neither train nor validation is NaN."""
        return replace(self, targets=tuple(_hidden(target) for target in self.targets))

    def links(self, validation: float = LINK_VALIDATION) -> LinkTask:
        """The link prediction by which an encoder learns: all before the cut-off, the newest share of it to stop by."""
        end = int(np.searchsorted(self.interactions.time, self.cutoff, "left"))
        begin = round(end * (1 - validation))
        split = Split(slice(0, begin), slice(begin, end), slice(end, len(self.interactions)))
        count = self.interactions.node_count if self.node_features is None else len(self.node_features)
        return LinkTask(self.name, self.interactions, split, np.zeros(count, np.bool_), self.node_features)


def label_task(
    name: str,
    interactions: Interactions,
    node_features: NDArray[np.float32] | None,
    labels: Mapping[str, LabelSet],
    parts: Mapping[str, NDArray[np.int8]],
) -> LabelTask:
    """A task whose cut-off is the first test question; answers not known by then are in no part.

    parts: by label, [n] int8, of each question: 0 train, 1 validation, 2 test, −1 none
    """
    asked = [interactions.time[labels[label].event[part == 2]] for label, part in parts.items()]
    if not sum(map(len, asked)):
        raise DataError(f"{name}: there is no test question")
    cutoff = float(np.concatenate(asked).min())

    def target(label: str) -> HeadQuestions:
        known = labels[label].known <= cutoff
        train, validation = (np.flatnonzero((parts[label] == part) & known) for part in (0, 1))
        return HeadQuestions(label, labels[label], train, validation, np.flatnonzero(parts[label] == 2))

    return LabelTask(name, interactions, node_features, cutoff, tuple(map(target, labels)))


def _hidden(target: HeadQuestions) -> HeadQuestions:
    value = np.full(len(target.labels), np.nan)
    learnt = np.concatenate([target.train, target.validation])
    value[learnt] = target.labels.value[learnt]
    return replace(target, labels=replace(target.labels, value=value))
