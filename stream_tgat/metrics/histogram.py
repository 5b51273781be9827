"""A histogram that takes a whole array at once: one update a batch, where prometheus-client takes value by value."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class Histogram:
    """Counts of values by bucket, as Prometheus keeps them: a bound belongs to the bucket that it ends.

    >>> latencies = Histogram((0.1, 1.0))
    >>> latencies.observe_all(np.array([0.1, 0.5, 0.5, 7.0, np.nan]))
    >>> list(latencies.buckets()), latencies.sum
    ([('0.1', 1), ('1.0', 3), ('+Inf', 4)], 8.1)
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        """bounds: of the buckets, ascending"""
        self._bounds = tuple(bounds)
        self._edges = np.array(self._bounds, np.float64)
        self._counts = np.zeros(len(self._bounds) + 1, np.int64)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return int(self._counts.sum())

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: NDArray[np.float64]) -> None:
        """Count values f8[n]; those that are not a number are left out."""
        known = values[values == values]
        if len(known):
            self._counts += np.bincount(self._edges.searchsorted(known), minlength=len(self._counts))
            self.sum += float(known.sum())

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Each upper bound, and how many values are not above it."""
        names = (*map(str, self._bounds), "+Inf")
        yield from zip(names, np.cumsum(self._counts).tolist(), strict=True)
