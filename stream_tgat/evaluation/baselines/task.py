"""What a baseline may learn from: the part of a task that training sees."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split


class Task(Protocol):
    """What a baseline reads of a link prediction task. hidden: [N] bool, nodes whose interactions training lacks."""

    @property
    def interactions(self) -> Interactions:
        """All of them, by time."""
        ...

    @property
    def split(self) -> Split:
        """Which to train on, and which to stop by."""
        ...

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Nodes that are new after training; N may exceed the largest number in an interaction."""
        ...

    @property
    def node_features(self) -> NDArray[np.float32] | None:
        """What nodes have of their own, [N, F], or None."""
        ...


def visible(task: Task) -> tuple[Interactions, slice, slice]:
    """Interactions of training and validation without those of hidden nodes, and which of them are which.

    Validation leaves hidden nodes out as well, so that nothing is chosen by what the test calls unseen.
    """
    split = task.split
    train, validation = (_seen(task, part) for part in (split.train, split.validation))
    parts = np.concatenate([train, validation])
    return task.interactions.select(parts), slice(0, len(train)), slice(len(train), len(parts))


def _seen(task: Task, part: slice) -> NDArray[np.int64]:
    events = np.arange(part.start, part.stop)
    source, destination = task.interactions.source[events], task.interactions.destination[events]
    return events[~(task.hidden[source] | task.hidden[destination])]
