"""Which of a node's past interactions become its neighbours.

A sampler is deterministic: the same (node, time, seed) gives the same neighbours, whatever else is in the batch.
Randomness comes from hashing, not from a generator with a state. Results are in time order, like `History.recent`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.history import History, Neighbourhood

Sampler = Callable[[History, NDArray[np.int64], NDArray[np.float64], int], Neighbourhood]
"""(history, nodes [B], times [B], k) to the neighbourhood of each query."""


def recent(history: History, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int) -> Neighbourhood:
    """The k most recent."""
    return history.recent(nodes, times, k)


def uniform(candidates: int | None = None, seed: int = 0) -> Sampler:
    """Take k without replacement, each of the past (or of the newest `candidates`) as likely as the other."""

    def sample(history: History, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int) -> Neighbourhood:
        first, end = history.before(nodes, times)
        count = end - first
        if candidates is not None:
            count = np.minimum(count, candidates)
        places, mask = uniform_places(count, k, query_hash(nodes, times, seed))
        return history.at((end - count)[:, None] + places, mask)

    return sample


def inverse_timespan(candidates: int, seed: int = 0) -> Sampler:
    """Take k without replacement among the newest `candidates`, drawn in proportion to 1 / (t − t_i)."""

    def sample(history: History, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int) -> Neighbourhood:
        newest = history.recent(nodes, times, max(candidates, k))
        hashes = _mix(query_hash(nodes, times, seed)[:, None] + np.arange(newest.mask.shape[1]).astype(np.uint64))
        # An exponential variable over its weight: the k smallest are a weighted draw without replacement.
        waits = -np.log(_unit(hashes)) * (times[:, None] - newest.time)
        waits[~newest.mask] = np.inf
        chosen = np.sort(np.argsort(waits, axis=1, kind="stable")[:, :k], axis=1)
        # Absent places, which wait forever, lie on the left of those that exist; the sort keeps them there.
        return Neighbourhood(
            np.take_along_axis(newest.node, chosen, 1),
            np.take_along_axis(newest.event, chosen, 1),
            np.take_along_axis(newest.time, chosen, 1),
            np.take_along_axis(newest.side, chosen, 1),
            np.take_along_axis(newest.mask, chosen, 1),
        )

    return sample


def uniform_places(
    count: NDArray[np.int64], k: int, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Choose k different places out of `count`, by Floyd's algorithm: each subset as likely as the other.

    count: [B] int64, how many there are to choose from   hashes: [B] uint64, what decides (of a query, an interaction)
    Returns places [B, k] int64 in [0, count), rising, and mask [B, k] bool; padded on the left where count < k.
    """
    if len(count) == 0 or k == 0:
        return np.zeros((len(count), k), np.int64), np.zeros((len(count), k), np.bool_)
    places = np.full((len(count), k), -1, np.int64)
    for step in range(k):
        top = count - k + step
        drawn = np.where(top >= 0, (_unit(_mix(hashes + np.uint64(step))) * (top + 1)).astype(np.int64), -1)
        drawn = np.minimum(drawn, top)
        taken = (places[:, :step] == drawn[:, None]).any(1)
        places[:, step] = np.where(taken, top, drawn)
    few = count < k
    places[few] = (count[few] - k)[:, None] + np.arange(k)
    places.sort(axis=1)
    mask = places >= 0
    return np.where(mask, places, 0), mask


def query_hash(nodes: NDArray[np.int64], times: NDArray[np.float64], seed: int = 0) -> NDArray[np.uint64]:
    """A hash of each (node, time): [B] uint64."""
    bits = np.ascontiguousarray(times, np.float64).view(np.uint64)
    return _mix(_mix(nodes.astype(np.uint64) + _mix(np.full(1, seed, np.uint64))) ^ bits)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's step and finaliser."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def _unit(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Into (0, 1), from the upper 53 bits."""
    return ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
