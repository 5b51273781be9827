"""Bans of users and the like, from a JODIE file: does this interaction change the user's state?

The paper's node classification. An answer counts as known at its own time, and the parts are the oldest 70 %, the next
15 % and the newest 15 % of the interactions.
"""

from pathlib import Path

import numpy as np

from research.labels.task import LabelTask, label_task
from stream_tgat.datasets.jodie import load_jodie
from stream_tgat.graph.splits import chronological_split
from stream_tgat.training.log import last_as_source, one_per_question

LABEL = "changed"


def load_bans(path: Path) -> LabelTask:
    """The task of a file. A user's interactions of one time are one question, yes if any of them changes the state."""
    data = load_jodie(path)
    interactions = data.interactions()
    asks = last_as_source(interactions, interactions.source, interactions.time)
    labels = one_per_question(asks, data.changed.astype(np.float64), interactions.time)
    split = chronological_split(interactions.time)
    part = np.searchsorted([split.train.stop, split.validation.stop], labels.event, "right").astype(np.int8)
    return label_task(path.resolve().name, interactions, None, {LABEL: labels}, {LABEL: part})
