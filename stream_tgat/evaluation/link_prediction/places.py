"""A draw of places that is decided by a hash: the same for every method, in any order and in any batches."""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.hashing import mix, unit

_STEP = np.uint64(0x9E3779B97F4A7C15)


def draw_hash(events: NDArray[np.int64], times: NDArray[np.float64], seed: int) -> NDArray[np.uint64]:
    """A hash of each (interaction, time): [B] uint64."""
    bits = np.ascontiguousarray(times, np.float64).view(np.uint64)
    return _next(_next(events.astype(np.uint64) + _next(np.full(1, seed, np.uint64))) ^ bits)


def uniform_places(
    count: NDArray[np.int64], k: int, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Choose k different places out of `count`, by Floyd's algorithm: each subset as likely as the other.

    count: [B] int64, how many there are to choose from   hashes: [B] uint64, what decides
    Returns places [B, k] int64 in [0, count), rising, and mask [B, k] bool; padded on the left where count < k.
    """
    if len(count) == 0 or k == 0:
        return np.zeros((len(count), k), np.int64), np.zeros((len(count), k), np.bool_)
    places = np.full((len(count), k), -1, np.int64)
    for step in range(k):
        top = count - k + step
        drawn = np.where(top >= 0, (unit(_next(hashes + np.uint64(step))) * (top + 1)).astype(np.int64), -1)
        drawn = np.minimum(drawn, top)
        taken = (places[:, :step] == drawn[:, None]).any(1)
        places[:, step] = np.where(taken, top, drawn)
    few = count < k
    places[few] = (count[few] - k)[:, None] + np.arange(k)
    places.sort(axis=1)
    mask = places >= 0
    return np.where(mask, places, 0), mask


def _next(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 from these states."""
    return mix(values + _STEP)
