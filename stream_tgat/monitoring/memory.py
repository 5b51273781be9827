"""What a monitor remembers: rows in preallocated arrays, bounded by looking at fewer users when they are full.

Which users are looked at is told by a hash of the node, so that all rows of a user are there or none is: a label never
finds an earlier question because the right one was forgotten.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

NodeTimeRows = npt.NDArray[np.void]
"""Structured rows with at least the fields `node` (u8, a hash) and `time` (f8, unix seconds)."""

_FEW_USERS: Final = 64


def node_hash(node: bytes) -> int:
    """64 bits that stand for a node, the same in every process."""
    return int.from_bytes(blake2b(node, digest_size=8).digest())


def interaction_hash(interaction: bytes, time: float, user: bytes, item: bytes) -> int:
    """64 bits that stand for an interaction, which is its id, time, user and item; the same in every process."""
    return node_hash(b"\0".join((interaction, repr(time).encode(), user, item)))


class RecentRows:
    """Several kinds of rows of the same users, within a horizon of event time.

    user_share: of the users, how many are looked at. It is halved when rows of one kind fill their array although what
    is beyond the horizon is forgotten, and stays so.
    """

    def __init__(self, kinds: Mapping[str, tuple[npt.DTypeLike, int]], horizon_s: float) -> None:
        """kinds: {name: (dtype, rows at most)}"""
        self.user_share = 1.0
        self.newest = -np.inf
        self._horizon_s = horizon_s
        self._arrays = {name: np.zeros(capacity, dtype) for name, (dtype, capacity) in kinds.items()}
        self._counts = dict.fromkeys(kinds, 0)

    def rows(self, kind: str) -> NodeTimeRows:
        """The rows of a kind in their order of arrival, a view; those beyond the horizon too, until room is needed."""
        return self._arrays[kind][: self._counts[kind]]

    @property
    def oldest(self) -> float:
        """Event time at which the horizon lies; −inf before the first call of `advance`."""
        return self.newest - self._horizon_s

    def advance(self, time: float) -> None:
        """The newest event time, in unix seconds, if it is newer than what was known."""
        self.newest = max(self.newest, time)

    def add(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Remember rows, given as tuples of the kind's fields."""
        array = self._arrays[kind]
        new = np.array(rows, array.dtype)
        at_once = max(len(array) // 4, 1)
        for start in range(0, len(new), at_once):
            part = self._of_users_looked_at(new[start : start + at_once])
            if self._counts[kind] + len(part) > len(array):
                self._make_room(kind, len(part))
                part = self._of_users_looked_at(part)
            count = self._counts[kind]
            array[count : count + len(part)] = part
            self._counts[kind] = count + len(part)

    def _make_room(self, kind: str, needed: int) -> None:
        for each in self._arrays:
            self._keep(each, self.rows(each)["time"] >= self.oldest)
        while self._counts[kind] + needed > len(self._arrays[kind]):
            if len(np.unique(self.rows(kind)["node"])) < _FEW_USERS:
                # The oldest go instead: fewer users might soon be none.
                self._keep(kind, np.arange(self._counts[kind]) >= len(self._arrays[kind]) // 2)
                continue
            self.user_share /= 2
            for each in self._arrays:
                self._keep(each, self._looked_at(self.rows(each)))

    def _keep(self, kind: str, which: npt.NDArray[np.bool_]) -> None:
        kept = self.rows(kind)[which]
        self._arrays[kind][: len(kept)] = kept
        self._counts[kind] = len(kept)

    def _of_users_looked_at(self, rows: NodeTimeRows) -> NodeTimeRows:
        return rows if self.user_share == 1.0 else rows[self._looked_at(rows)]

    def _looked_at(self, rows: NodeTimeRows) -> npt.NDArray[np.bool_]:
        return rows["node"] * 2.0**-64 < self.user_share
