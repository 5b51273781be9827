"""Sums over all of a node's past that fade: what could be a state of constant size per node, beside its neighbours.

S_τ(t) = Σ_i exp(−(t − t_i) / τ) · [1 ‖ edge features of interaction i], over the interactions strictly before t, for
some time constants τ: how often, and what, lately and long since. One exponential and one sum per interaction keep it
up to date. A neighbourhood of the K newest, summed up by weights that add to one, cannot count so far back.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stream_tgat.evaluation.baselines.temporal import TemporalMethod
from stream_tgat.evaluation.labels.methods import Heads, encoded, event_features
from stream_tgat.evaluation.labels.task import LabelTask
from stream_tgat.graph.history import History

DAY_S = 86_400.0
CONSTANTS_S = (7 * DAY_S, 28 * DAY_S, 112 * DAY_S)


def decayed_sums(
    history: History, nodes: NDArray[np.int64], times: NDArray[np.float64], constants_s: tuple[float, ...] = CONSTANTS_S
) -> NDArray[np.float32]:
    """S of each node just before each time: [B, constants · (1 + E)] float32, zero for a node without a past.

    nodes: [B] int64, of the history   times: [B] float64, seconds
    """
    first, end = history.before(nodes, times)
    past = end > first
    last = np.where(past, end - 1, 0)
    age = np.where(past, times - history.time[last], np.inf)
    blocks = []
    for constant in constants_s:
        running = _running(history, np.unique(nodes), constant)
        blocks.append(np.exp(-age / constant)[:, None] * running[last])
    return np.concatenate(blocks, 1).astype(np.float32)


def _running(history: History, nodes: NDArray[np.int64], constant: float) -> NDArray[np.float64]:
    """S right after each row of the history, of the rows of some nodes: [2n, 1 + E]."""
    edge = history.interactions.edge[history.event]
    state = np.concatenate([np.ones((len(edge), 1)), edge.astype(np.float64)], 1)
    first, degree = history.offsets[nodes], np.diff(history.offsets)[nodes]
    by_degree = np.argsort(-degree, kind="stable")
    first, degree = first[by_degree], degree[by_degree]
    for depth in range(1, int(degree.max(initial=0))):
        row = first[: np.searchsorted(-degree, -depth, "left")] + depth
        gap = history.time[row] - history.time[row - 1]
        state[row] += np.exp(-gap / constant)[:, None] * state[row - 1]
    return state


@dataclass(frozen=True, eq=False)
class DecayedSums:
    """Heads over [decayed sums ‖ features of the interaction], after a graph network's embedding if there is one."""

    name: str = "Decayed sums"
    encoder: TemporalMethod | None = None
    heads: Heads = field(default_factory=Heads)

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        history = History(task.interactions)
        read = [event_features(task, target) for target in task.targets]
        if self.encoder is not None:
            read = encoded(self.encoder, task, seed)

        def joined(event: NDArray[np.int64], inputs: Tensor) -> Tensor:
            sums = decayed_sums(history, task.interactions.source[event], task.interactions.time[event])
            return torch.cat([torch.from_numpy(sums), inputs], -1)

        inputs = [joined(target.labels.event, some) for target, some in zip(task.targets, read, strict=True)]
        return self.heads.scores(task, inputs, seed)


def with_decayed_sums(encoder: TemporalMethod, heads: Heads) -> DecayedSums:
    """A graph network's row with decayed sums beside its embedding."""
    return DecayedSums(f"{encoder.name} + decayed sums", encoder, heads)
