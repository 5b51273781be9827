"""When the records of interactions were written, remembered by place: an embedding names the place it comes from.

Blocks of `propagation` say it for their first and their last record, and that is kept for the newest blocks of each
source. What lies further back, as after a restart, is not known any more. It knows numbers only.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.agents.origins import source_offsets, source_partitions

#: Blocks remembered of each source. At ten milliseconds each that is over a minute; a full one has hundreds of records.
REMEMBERED: Final = 8192

_BLOCK: Final = np.dtype([("first", "i8"), ("end", "i8"), ("begun", "f8"), ("ended", "f8")])


class Written:
    """The time at which each of the newest records of `interactions` was written. One thread at a time."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._sources: dict[int, _Blocks] = {}

    def note(self, partition: int, first: int, end: int, begun: float, ended: float) -> None:
        """Offsets [first, end) of a partition were written from `begun` to `ended`, unix seconds."""
        blocks = self._sources.get(partition)
        if blocks is None:
            blocks = self._sources[partition] = _Blocks(self._remembered)
        if end > blocks.end:
            # All partitions of `propagation` tell the same.
            blocks.add(first, end, begun, ended)

    def times(self, origins: NDArray[np.int64]) -> NDArray[np.float64]:
        """When the records at these places (see `origins`) were written: f8[n], NaN where that is not known.

        Between the first and the last record of a block time passes evenly.
        """
        found = np.full(len(origins), np.nan)
        partitions, offsets = source_partitions(origins), source_offsets(origins)
        for partition, blocks in self._sources.items():
            mine = np.flatnonzero(partitions == partition)
            if len(mine):
                found[mine] = blocks.times(offsets[mine])
        return found


@dataclass(slots=True)
class _Blocks:
    """Blocks of one source, ascending. Twice as many as are remembered fit; then the older half goes."""

    remembered: int
    end: int = -1
    _kept: NDArray[np.void] = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        self._kept = np.zeros(2 * self.remembered, _BLOCK)

    def add(self, first: int, end: int, begun: float, ended: float) -> None:
        if self._count == len(self._kept):
            self._kept[: self.remembered] = self._kept[self.remembered :]
            self._count = self.remembered
        self._kept[self._count] = first, end, begun, ended
        self._count += 1
        self.end = end

    def times(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        known = self._kept[: self._count]
        at = np.searchsorted(known["end"], offsets, side="right")
        there = at < len(known)
        blocks = known[np.where(there, at, 0)]
        share = (offsets - blocks["first"]) / np.maximum(blocks["end"] - blocks["first"] - 1, 1)
        times = blocks["begun"] + share * (blocks["ended"] - blocks["begun"])
        return np.where(there & (offsets >= blocks["first"]), times, np.nan)
