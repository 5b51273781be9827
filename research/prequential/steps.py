"""A stream cut into steps, at whose beginnings a model can be made from all that is known by then, and from no more."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.labels.task import HeadQuestions, LabelTask
from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.heads import split_labels
from stream_tgat.training.log import LabelSet

VALIDATION_SHARE = 0.2
"""Of the answers known, the newest by their question: what heads are stopped by, and what a gate looks at."""


@dataclass(frozen=True, eq=False)
class PrequentialStream:
    """Interactions, the questions about their users, and where steps begin.

    node_features: [N, F] float32, or None   labels: by head
    cuts: seconds, rising; a step ends where the next one begins, the last one never
    """

    name: str
    interactions: Interactions
    node_features: NDArray[np.float32] | None
    labels: Mapping[str, LabelSet]
    cuts: tuple[float, ...]

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads' names, in order."""
        return tuple(self.labels)

    def asked(self, head: str) -> NDArray[np.float64]:
        """When each question of a head is asked: [n] seconds."""
        return self.interactions.time[self.labels[head].event]

    def users(self, head: str) -> NDArray[np.int64]:
        """Whom each question of a head is about: [n]."""
        return self.interactions.source[self.labels[head].event]

    def places(self, head: str, step: int) -> NDArray[np.int64]:
        """The questions of a head that are asked in a step."""
        end = self.cuts[step + 1] if step + 1 < len(self.cuts) else np.inf
        asked = self.asked(head)
        return np.flatnonzero((asked >= self.cuts[step]) & (asked < end))

    def task(self, step: int, held_out: float = 0.0) -> LabelTask:
        """What is known when a step begins: answers that are not are NaN, and all later questions are the test.

        Training's answers were known when validation began; those that came in between are in neither part.
        held_out: the newest share of the interactions, which is taken for not yet there
        """
        cut = self.cuts[step]
        if held_out:
            before = int(np.searchsorted(self.interactions.time, cut, "left"))
            cut = float(self.interactions.time[int(before * (1.0 - held_out))])
        return LabelTask(
            self.name, self.interactions, self.node_features, cut, tuple(self._target(head, cut) for head in self.heads)
        )

    def _target(self, head: str, cut: float) -> HeadQuestions:
        labels, asked = self.labels[head], self.asked(head)
        is_known = (labels.known <= cut) & (asked < cut)
        known = np.flatnonzero(is_known)
        train, validation = split_labels(labels.select(known), asked[known], VALIDATION_SHARE)
        value = np.where(is_known, labels.value, np.nan)
        seen = LabelSet(labels.event, value, labels.known)
        return HeadQuestions(head, seen, known[train], known[validation], np.flatnonzero(asked >= cut))


def cut_into_steps(task: LabelTask, first_s: float, every_s: float) -> PrequentialStream:
    """A task's stream, with a step every so often from the first on; what would be less than half a step joins the one
    before it.

    first_s: from the first interaction to the first step   every_s: from step to step
    """
    time = task.interactions.time
    labels = {target.name: target.labels for target in task.targets}
    last = max(float(time[each.event[-1]]) for each in labels.values())
    cuts = np.arange(time[0] + first_s, last - every_s / 2, every_s)
    if len(cuts) < 2:
        raise DataError(f"{task.name}: fewer than two steps of {every_s:g} s after the first {first_s:g} s")
    return PrequentialStream(task.name, task.interactions, task.node_features, labels, tuple(cuts.tolist()))
