"""How often and how lately two nodes met before a time. Unlike a node's newest neighbours, it forgets nothing."""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.interactions import Interactions


class Meetings:
    """The interactions of each pair, looked up by binary search, for many questions at once.

    directed: whether source and destination must have had the same roles
    """

    def __init__(self, interactions: Interactions, directed: bool = False) -> None:
        self._directed = directed
        self._nodes = interactions.node_count
        self._times = np.unique(interactions.time)
        codes = self._codes(interactions.source, interactions.destination)
        self._pairs, pair = np.unique(codes, return_inverse=True)
        self._keys = np.sort(pair * (len(self._times) + 1) + np.searchsorted(self._times, interactions.time))
        self._begin = np.searchsorted(self._keys, np.arange(len(self._pairs)) * (len(self._times) + 1))

    def before(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Number of meetings strictly before each time, and the time of the last one, NaN where there is none.

        sources, destinations, times: shapes that broadcast together; the results have the shape they broadcast to
        """
        codes, ranks = np.broadcast_arrays(
            self._codes(sources, destinations), np.searchsorted(self._times, times, "left")
        )
        if len(self._pairs) == 0:
            return np.zeros(codes.shape, np.int64), np.full(codes.shape, np.nan)
        pair = np.minimum(np.searchsorted(self._pairs, codes), len(self._pairs) - 1)
        end = np.searchsorted(self._keys, pair * (len(self._times) + 1) + ranks, "left")
        count = np.where(self._pairs[pair] == codes, end - self._begin[pair], 0)
        last = self._times[self._keys[np.maximum(end - 1, 0)] % (len(self._times) + 1)]
        return count, np.where(count > 0, last, np.nan)

    def _codes(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.int64]:
        """One number for each pair; −1 for nodes that are not in the interactions."""
        sources, destinations = np.broadcast_arrays(sources, destinations)
        first, second = sources, destinations
        if not self._directed:
            first, second = np.minimum(sources, destinations), np.maximum(sources, destinations)
        known = np.maximum(first, second) < self._nodes
        return np.where(known, first * self._nodes + second, -1)
