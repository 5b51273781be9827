"""Interactions as parallel arrays, in time order: what a log or a data set is, once read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_tgat.errors import DataError


@dataclass(frozen=True, eq=False)
class Interactions:
    """n interactions by time; an interaction's id is its place here, which also orders those of one time.

    source, destination: [n] int64, node numbers from 0   time: [n] float64, seconds, never falling
    edge: [n, E] float32
    """

    source: NDArray[np.int64]
    destination: NDArray[np.int64]
    time: NDArray[np.float64]
    edge: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        count = len(self.time)
        if self.source.shape != (count,) or self.destination.shape != (count,) or self.edge.shape[:1] != (count,):
            raise DataError(
                f"interactions need arrays of one length; got source {self.source.shape}, destination "
                f"{self.destination.shape}, time {self.time.shape}, edge {self.edge.shape}"
            )
        if self.edge.ndim != 2:
            raise DataError(f"edge features need the shape [n, E]; got {self.edge.shape}")
        if count and min(self.source.min(), self.destination.min()) < 0:
            raise DataError("node numbers must not be negative")
        if not np.all(np.isfinite(self.time)):
            raise DataError("times must be finite")
        if np.any(np.diff(self.time) < 0):
            raise DataError("times fall; use Interactions.in_time_order")

    @classmethod
    def in_time_order(
        cls, source: ArrayLike, destination: ArrayLike, time: ArrayLike, edge: ArrayLike | None = None
    ) -> Self:
        """Sort by time; those of one time keep the order in which they came. No `edge` means E = 0."""
        times = np.asarray(time, np.float64)
        features = np.zeros((len(times), 0), np.float32) if edge is None else np.asarray(edge, np.float32)
        order = np.argsort(times, kind="stable")
        return cls(
            np.asarray(source, np.int64)[order],
            np.asarray(destination, np.int64)[order],
            times[order],
            np.ascontiguousarray(features[order]),
        )

    def __len__(self) -> int:
        return len(self.time)

    @property
    def node_count(self) -> int:
        """One more than the largest node number."""
        return int(max(self.source.max(), self.destination.max())) + 1 if len(self) else 0

    def select(self, which: slice | NDArray[np.bool_] | NDArray[np.int64] | Sequence[int]) -> "Interactions":
        """A part of them, in the same order, renumbered from 0."""
        return Interactions(self.source[which], self.destination[which], self.time[which], self.edge[which])
