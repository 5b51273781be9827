"""A stream small enough for seconds, in which what tells the answer changes half-way, or does not."""

from __future__ import annotations

import numpy as np

from research.baselines.temporal import TemporalMethod
from research.labels import LabelTask, label_task
from research.labels.methods import Heads
from research.labels.trees import BoostedTrees, event_and_user
from research.prequential import PrequentialStream, cut_into_steps
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.fitting import HeadSettings
from stream_tgat.training.links import LinkSettings
from stream_tgat.training.log import LabelSet

COUNT = 1200
CHANGE = 600
DELAY_S = 10.0

HEADS = Heads(HeadSettings(epochs=12, penalties=(0.001,), learning_rate=0.02))
ENCODER = TemporalMethod("TGAT", width=8, time_width=8, layers=1, neighbours=4, settings=LinkSettings(epochs=1))
BOOSTED = BoostedTrees((event_and_user,), least=5)


def drifting(*, drifts: bool, seed: int = 0) -> LabelTask:
    """One interaction a second. The sign of the first feature answers `told`; if it drifts, from 600 s on the first
    feature is zero and the sign of the second answers. `coin` is answered by chance. Answers come 10 s later.
    """
    random = np.random.default_rng(seed)
    users = random.integers(0, 30, COUNT)
    time = np.arange(COUNT, dtype=np.float64)
    edge = random.normal(size=(COUNT, 2)).astype(np.float32)
    later = (time >= CHANGE) & drifts
    edge[later, 0] = 0.0
    told = np.where(later, edge[:, 1], edge[:, 0]) > 0
    interactions = Interactions.in_time_order(users, 30 + random.integers(0, 8, COUNT), time, edge)
    labels = {
        "told": LabelSet(np.arange(COUNT), told.astype(np.float64), time + DELAY_S),
        "coin": LabelSet(np.arange(COUNT), random.integers(0, 2, COUNT).astype(np.float64), time + DELAY_S),
    }
    part = np.repeat([0, 1, 2], COUNT // 3).astype(np.int8)
    features = random.normal(size=(38, 3)).astype(np.float32)
    return label_task("drifting", interactions, features, labels, {"told": part, "coin": part})


def stream(*, drifts: bool, seed: int = 0) -> PrequentialStream:
    """Steps from 300, 500, 700 and 900 s on."""
    return cut_into_steps(drifting(drifts=drifts, seed=seed), 300.0, 200.0)
