"""Decayed sums: how often, and with what features, a node has interacted, lately and long since.

S_τ(t) = Σ_i exp(−(t − t_i) / τ) · [1 ‖ edge features of interaction i], over the interactions strictly before t, for
some time constants τ: a state of constant size per node, which one exponential and one sum per interaction keep up to
date. A neighbourhood of the K newest, summed up by weights that add to one, cannot count so far back. One definition
for training and stream; what prediction heads read is `compressed`.
"""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.history import History


def compressed(sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """sign(S) · log(1 + |S|), float32: amounts and counts have long tails."""
    return (np.sign(sums) * np.log1p(np.abs(sums))).astype(np.float32)


def decayed_sums(
    history: History, nodes: NDArray[np.int64], times: NDArray[np.float64], constants_s: tuple[float, ...]
) -> NDArray[np.float64]:
    """S of each node just before each time: [B, constants · (1 + E)], zero for a node without a past.

    nodes: [B] int64, of the history   times: [B] float64, seconds   constants_s: each τ, seconds
    """
    first, end = history.before(nodes, times)
    past = end > first
    last = np.where(past, end - 1, 0)
    age = np.where(past, times - history.time[last], np.inf)
    blocks = []
    for constant in constants_s:
        running = _running(history, np.unique(nodes), constant)
        blocks.append(np.exp(-age / constant)[:, None] * running[last])
    return np.concatenate(blocks, 1)


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
