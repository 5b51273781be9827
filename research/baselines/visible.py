"""What a baseline may learn from: the part of a task that training sees."""

import numpy as np

from stream_tgat.evaluation.link_prediction.task import LinkTask, Part
from stream_tgat.graph.interactions import Interactions


def visible(task: LinkTask) -> tuple[Interactions, slice, slice]:
    """Interactions of training and validation without those of hidden nodes, and which of them are which.

    Validation leaves hidden nodes out as well, so that nothing is chosen by what the test calls unseen.
    """
    train, validation = task.train, task.without_hidden(task.events(Part.VALIDATION))
    parts = np.concatenate([train, validation])
    return task.interactions.select(parts), slice(0, len(train)), slice(len(train), len(parts))
