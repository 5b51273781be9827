"""Every node's past, and who its neighbours were before a time.

Past is strictly earlier, compared in float64: interactions of one time do not see each other. All look-ups are
vectorised over queries: an integer key (node, rank of time) finds the end of a node's past by binary search.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.graph.activity import activity
from stream_tgat.graph.hashing import hash_times
from stream_tgat.graph.interactions import Interactions


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """K places per query, oldest first, most recent last; padded on the left.

    node: [B, K] int64, the peer   event: [B, K] int64, place of the interaction in the Interactions
    time: [B, K] float64   side: [B, K] uint8, 0 where the query's node was the source, 1 where the destination
    mask: [B, K] bool, True where a neighbour exists; elsewhere all the other arrays are 0
    """

    node: NDArray[np.int64]
    event: NDArray[np.int64]
    time: NDArray[np.float64]
    side: NDArray[np.uint8]
    mask: NDArray[np.bool_]

    def of(self, rows: NDArray[np.int64]) -> "Neighbourhood":
        """Those of some queries, in their order: rows [M] int64."""
        return Neighbourhood(self.node[rows], self.event[rows], self.time[rows], self.side[rows], self.mask[rows])


class TemporalAdjacency:
    """The half-edges of all interactions, node by node, each node's in (time, id, side) order.

    offsets: [N + 1] int64, node v owns rows offsets[v] … offsets[v + 1]
    peer, event: [2n] int64   time: [2n] float64   side: [2n] uint8
    """

    def __init__(self, interactions: Interactions, node_count: int | None = None) -> None:
        self.interactions = interactions
        self.node_count = interactions.node_count if node_count is None else node_count
        if self.node_count < interactions.node_count:
            raise DataError(f"node_count is {node_count}, but there is a node {interactions.node_count - 1}")
        owner = np.stack([interactions.source, interactions.destination], 1).ravel()
        order = np.argsort(owner, kind="stable")
        self.event = order // 2
        self.side = (order % 2).astype(np.uint8)
        self.peer = np.stack([interactions.destination, interactions.source], 1).ravel()[order]
        self.time = interactions.time[self.event]
        self.offsets = np.zeros(self.node_count + 1, np.int64)
        np.cumsum(np.bincount(owner, minlength=self.node_count), out=self.offsets[1:])
        self._times = np.unique(interactions.time)
        self._keys = owner[order] * (len(self._times) + 1) + np.searchsorted(self._times, self.time)

    def before(self, nodes: NDArray[np.int64], times: NDArray[np.float64]) -> tuple[NDArray[np.int64], ...]:
        """Rows of each node strictly before each time: [first, end) as two arrays [B] int64.

        nodes: [B] int64; a node not seen (or beyond the node count) has none   times: [B] float64
        """
        known = np.minimum(nodes, self.node_count)
        end = np.searchsorted(self._keys, known * (len(self._times) + 1) + np.searchsorted(self._times, times))
        return self.offsets[known], np.asarray(end, np.int64)

    def recent(self, nodes: NDArray[np.int64], times: NDArray[np.float64], k: int) -> Neighbourhood:
        """The k most recent neighbours of each node strictly before each time.

        nodes: [B] int64   times: [B] float64
        """
        first, end = self.before(nodes, times)
        rows = end[:, None] + np.arange(-k, 0)
        return self.at(rows, rows >= first[:, None])

    def at(self, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> Neighbourhood:
        """The half-edges in some rows.

        rows: [B, K] int64, anything where the mask is False   mask: [B, K] bool
        """
        if len(self.event) == 0:
            none = np.zeros(rows.shape, np.int64)
            return Neighbourhood(none, none, none.astype(np.float64), none.astype(np.uint8), np.zeros_like(mask))
        rows = np.where(mask, rows, 0)
        return Neighbourhood(
            self.peer[rows] * mask, self.event[rows] * mask, self.time[rows] * mask, self.side[rows] * mask, mask
        )

    def looked_back(
        self, nodes: NDArray[np.int64], times: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """What the activity features need: degree [B] int64, times of the last and the fifth-last row [B] float64.

        All strictly before `times`; a time is NaN where there is no such row.
        """
        first, end = self.before(nodes, times)
        degree = end - first
        last, fifth_last = (self._time_back(end, degree, steps) for steps in (1, 5))
        return degree, last, fifth_last

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """What samplers draw by: of each half-edge's time, plus the node's newer half-edges of that time: [2n] uint64.

        Counted from the newest, so that it is known to who keeps only the newest.
        """
        newer = np.searchsorted(self._keys, self._keys, "right") - 1 - np.arange(len(self._keys))
        return hash_times(self.time) + newer.astype(np.uint64)

    @cached_property
    def half_edge_activity(self) -> NDArray[np.float32]:
        """Activity of a half-edge's owner just before it, for all of them: [2n, 3] float32, at 2 · event + side."""
        interactions = self.interactions
        nodes = np.stack([interactions.source, interactions.destination], 1).ravel()
        times = np.repeat(interactions.time, 2)
        return activity(times, *self.looked_back(nodes, times))

    def _time_back(self, end: NDArray[np.int64], degree: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
        result = np.full(len(end), np.nan)
        exists = degree >= steps
        result[exists] = self.time[end[exists] - steps]
        return result
