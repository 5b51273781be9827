"""Which of a node's past interactions become its neighbours.

A sampler is deterministic: the same (node, time, seed) gives the same neighbours, whatever else is in the batch.
Randomness comes from hashing, not from a generator with a state. Results are in time order, as in
`TemporalAdjacency.recent`.

Who draws, draws by *rank*: every past interaction has one in every query, a hash of the query's time, of its own time
and of its place among the node's interactions of that one time; the k that rank lowest are taken. Nothing else goes in,
as nothing else is the same in a training log and in a stream. The engine follows the same rule row by row, so that
`uniform` with seed 0 is what a model sees when it serves.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.adjacency import Neighbourhood, TemporalAdjacency
from stream_tgat.graph.hashing import hash_times, mix, unit

Sampler = Callable[[TemporalAdjacency, NDArray[np.int64], NDArray[np.float64], int], Neighbourhood]
"""(history, nodes [B], times [B], k) to the neighbourhood of each query."""


def recent(history: TemporalAdjacency, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int) -> Neighbourhood:
    """The k most recent."""
    return history.recent(nodes, times, k)


def uniform(candidates: int, seed: int = 0) -> Sampler:
    """Take k without replacement among the newest `candidates`, at least k: each subset as likely as the other."""
    return _drawn(candidates, seed, lambda ranks, _: ranks)


def inverse_timespan(candidates: int, seed: int = 0) -> Sampler:
    """Take k without replacement among the newest `candidates`, drawn in proportion to 1 / (t − t_i)."""
    # An exponential variable over its weight: the k smallest are a weighted draw without replacement.
    return _drawn(candidates, seed, lambda ranks, spans: -np.log(unit(ranks)) * spans)


def _drawn(
    candidates: int,
    seed: int,
    priority: Callable[[NDArray[np.uint64], NDArray[np.float64]], NDArray[np.uint64] | NDArray[np.float64]],
) -> Sampler:
    """Take the k of the newest `candidates` whose priority is smallest.

    priority: of ranks [B, C] uint64 and spans t − t_i [B, C]; [B, C]
    """

    def sample(
        history: TemporalAdjacency, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int
    ) -> Neighbourhood:
        first, end = history.before(nodes, times)
        rows = end[:, None] + np.arange(-max(candidates, k), 0)
        mask = rows >= first[:, None]
        if not mask.any() or k == 0:
            return history.recent(nodes, times, k)
        rows[~mask] = 0
        queries = hash_times(times) ^ mix(np.full(1, seed, np.uint64))
        ranks = mix(queries[:, None] ^ history.hashes[rows])
        order = priority(ranks, times[:, None] - history.time[rows])
        order[~mask] = np.iinfo(np.uint64).max if order.dtype == np.uint64 else np.inf
        # Absent places, which come last, lie on the left of those that exist; the sort keeps them there.
        chosen = np.sort(np.argpartition(order, k - 1, axis=1)[:, :k], axis=1)
        return history.at(np.take_along_axis(rows, chosen, 1), np.take_along_axis(mask, chosen, 1))

    return sample
