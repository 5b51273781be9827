"""Decayed sums of a user's past as what prediction heads read, alone or beside an embedding."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.baselines.temporal import TemporalMethod
from research.labels.methods import Heads, encoded, event_features
from research.labels.task import LabelTask
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.decayed import compressed, decayed_sums

DAY_S = 86_400.0
CONSTANTS_S = (7 * DAY_S, 28 * DAY_S, 112 * DAY_S)


@dataclass(frozen=True, eq=False)
class DecayedSums:
    """Heads over [decayed sums ‖ features of the interaction], after a graph network's embedding if there is one."""

    name: str = "Decayed sums"
    encoder: TemporalMethod | None = None
    heads: Heads = field(default_factory=Heads)

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        history = TemporalAdjacency(task.interactions)
        read = [event_features(task, target) for target in task.targets]
        if self.encoder is not None:
            read = encoded(self.encoder, task, seed)

        def joined(event: NDArray[np.int64], inputs: Tensor) -> Tensor:
            users, times = task.interactions.source[event], task.interactions.time[event]
            sums = compressed(decayed_sums(history, users, times, CONSTANTS_S))
            return torch.cat([torch.from_numpy(sums), inputs], -1)

        inputs = [joined(target.labels.event, some) for target, some in zip(task.targets, read, strict=True)]
        return self.heads.scores(task, inputs, seed)


def with_decayed_sums(encoder: TemporalMethod, heads: Heads) -> DecayedSums:
    """A graph network's row with decayed sums beside its embedding."""
    return DecayedSums(f"{encoder.name} + decayed sums", encoder, heads)
