"""Tasks small enough to check by hand, and one in which there is something to learn."""

import numpy as np

from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import chronological_split


def task_of(source, destination, time, edge=None, hidden=()):
    """A task of some interactions, split 70/15/15, hiding some nodes from training."""
    interactions = Interactions.in_time_order(source, destination, time, edge)
    hides = np.zeros(interactions.node_count, np.bool_)
    hides[list(hidden)] = True
    return LinkTask("small", interactions, chronological_split(interactions.time), hides)


def circles(count=400, users=12, items=12, seed=0, hidden=()):
    """Users and items of two kinds: a user only ever meets items of the own kind."""
    random = np.random.default_rng(seed)
    source = random.integers(0, users, count)
    destination = users + 2 * random.integers(0, items // 2, count) + source % 2
    return task_of(source, destination, np.cumsum(random.exponential(10.0, count)), hidden=hidden)
