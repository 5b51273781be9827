"""Whom each node had met by a time, each only once: what negatives are drawn from."""

import numpy as np
from numpy.typing import NDArray


class FirstMeetings:
    """Distinct (owner, node), each owner's by when they first came.

    node: [P] int64
    """

    def __init__(self, owner: NDArray[np.int64], node: NDArray[np.int64], time: NDArray[np.float64]) -> None:
        """Of rows in the order of time."""
        self._width = int(node.max(initial=0)) + 1
        keys, first = np.unique(owner * self._width + node, return_index=True)
        order = np.lexsort([first, owner[first]])
        self.node = node[first][order]
        self._owner = owner[first][order]
        self._times = np.unique(time)
        self._ranks = self._owner * (len(self._times) + 1) + np.searchsorted(self._times, time[first][order])
        self._keys = keys
        self._place = np.argsort(order)

    def all_of(self, owner: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places [begin, end) of each owner's nodes."""
        return np.searchsorted(self._owner, owner, "left"), np.searchsorted(self._owner, owner, "right")

    def before(
        self, owner: NDArray[np.int64], time: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places [begin, end) of each owner's nodes that came strictly before a time."""
        wanted = owner * (len(self._times) + 1) + np.searchsorted(self._times, time)
        return np.searchsorted(self._owner, owner, "left"), np.searchsorted(self._ranks, wanted, "left")

    def places(self, owner: NDArray[np.int64], node: NDArray[np.int64]) -> NDArray[np.int64]:
        """Place of each (owner, node), −1 where there is none; of the shape both broadcast to."""
        wanted = owner * self._width + node
        if len(self._keys) == 0:
            return np.full(wanted.shape, -1)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        known = (self._keys[at] == wanted) & (node >= 0) & (node < self._width)
        return np.where(known, self._place[at], -1)
