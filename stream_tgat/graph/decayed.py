"""Decayed sums: how often, and with what features, a node has interacted, lately and long since.

S_τ(t) = Σ_i exp(−(t − t_i) / τ) · [1 ‖ edge features of interaction i], over the interactions strictly before t, for
some time constants τ: a state of constant size per node, which one exponential and one sum per interaction keep up to
date. A neighbourhood of the K newest, summed up by weights that add to one, cannot count so far back. One definition
for training and stream; what prediction heads read is `compressed`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_tgat.compiled import compiled_with_arrays
from stream_tgat.graph.adjacency import TemporalAdjacency


def compressed(sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """sign(S) · log(1 + |S|), float32: amounts and counts have long tails."""
    return (np.sign(sums) * np.log1p(np.abs(sums))).astype(np.float32)


def decayed_sums(
    history: TemporalAdjacency, nodes: NDArray[np.int64], times: NDArray[np.float64], constants_s: tuple[float, ...]
) -> NDArray[np.float64]:
    """S of each node just before each time: [B, constants · (1 + E)], zero for a node without a past.

    nodes: [B] int64, of the history   times: [B] float64, seconds   constants_s: each τ, seconds
    """
    first, end = history.before(nodes, times)
    order = np.lexsort((end, first))
    edge, constants = history.interactions.edge, np.array(constants_s, np.float64)
    result = np.zeros((len(nodes), len(constants), 1 + edge.shape[1]))
    _sum_up(history.time, history.event, edge, first, end, times, order, constants, result)
    return result.reshape(len(nodes), result.shape[1] * result.shape[2])


@compiled_with_arrays
def _sum_up(
    row_time: Any, event: Any, edge: Any, first: Any, end: Any, times: Any, order: Any, constants: Any, result: Any
) -> None:
    """Go once over the rows of each node, for its queries in the order of their times.

    row_time, event: of rows   first, end: rows of each query   order: of queries, by (first, end)
    result: f8[B, constants, 1 + E], filled
    """
    state = np.zeros(result.shape[1:])
    begin, row = -1, 0
    for q in order:
        if first[q] != begin:
            begin = row = first[q]
            state[:] = 0.0
        while row < end[q]:
            for c in range(len(constants)):
                fade = np.exp((row_time[row - 1] - row_time[row]) / constants[c]) if row > begin else 0.0
                state[c, 0] = fade * state[c, 0] + 1.0
                for e in range(edge.shape[1]):
                    state[c, 1 + e] = fade * state[c, 1 + e] + edge[event[row], e]
            row += 1
        if row > begin:
            for c in range(len(constants)):
                fade = np.exp((row_time[row - 1] - times[q]) / constants[c])
                for e in range(state.shape[1]):
                    result[q, c, e] = fade * state[c, e]
