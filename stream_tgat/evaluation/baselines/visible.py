"""What a baseline may learn from: the part of a task that training sees."""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.links.task import LinkTask
from stream_tgat.graph.interactions import Interactions


def visible(task: LinkTask) -> tuple[Interactions, slice, slice]:
    """Interactions of training and validation without those of hidden nodes, and which of them are which.

    Validation leaves hidden nodes out as well, so that nothing is chosen by what the test calls unseen.
    """
    split = task.split
    train, validation = (_seen(task, part) for part in (split.train, split.validation))
    parts = np.concatenate([train, validation])
    return task.interactions.select(parts), slice(0, len(train)), slice(len(train), len(parts))


def _seen(task: LinkTask, part: slice) -> NDArray[np.int64]:
    events = np.arange(part.start, part.stop)
    source, destination = task.interactions.source[events], task.interactions.destination[events]
    return events[~(task.hidden[source] | task.hidden[destination])]
