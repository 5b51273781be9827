"""When the records of interactions were written, remembered by place: an embedding names the place it comes from.

Blocks of `propagation` say it for their first and their last record, and that is kept for the newest blocks of each
source. What lies further back, as after a restart, is not known any more. It knows numbers only.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.message_passing.heard import Heard
from stream_tgat.wire.origins import source_offsets, source_partitions
from stream_tgat.wire.packets import SourceTopic, decode_blocks

#: Blocks remembered of each source. At ten milliseconds each that is over a minute; a full one has hundreds of records.
REMEMBERED: Final = 8192

_NOWHERE: Final = np.iinfo(np.int64).max


class Written:
    """The time at which each of the newest records of `interactions` was written. One thread at a time."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._sources: dict[int, _Blocks] = {}
        self._heard = Heard()

    def hear(self, blocks: bytes) -> None:
        """Take note of the blocks of a packet, which are the same bytes for all partitions of `propagation`."""
        if not self._heard.is_new(blocks):
            return
        for source, first, end, _, _, written in decode_blocks(blocks):
            if source.topic is SourceTopic.INTERACTIONS and end > first:
                self.note(source.partition, first, end, *written)

    def note(self, partition: int, first: int, end: int, begun: float, ended: float) -> None:
        """Offsets [first, end) of a partition were written from `begun` to `ended`, unix seconds."""
        blocks = self._sources.get(partition)
        if blocks is None:
            blocks = self._sources[partition] = _Blocks(self._remembered)
        if end > blocks.end:
            # A partition of `propagation` that reads later tells the same.
            blocks.add(first, end, begun, ended)

    def times(self, origins: NDArray[np.int64]) -> NDArray[np.float64]:
        """When the records at these places (see `origins`) were written: f8[n], NaN where that is not known.

        Between the first and the last record of a block time passes evenly.
        """
        found = np.full(len(origins), np.nan)
        partitions, offsets = source_partitions(origins), source_offsets(origins)
        for partition, blocks in self._sources.items():
            mine = (partitions == partition).nonzero()[0]
            if len(mine):
                found[mine] = blocks.times(offsets[mine])
        return found


class _Blocks:
    """Blocks of one source, ascending. Twice as many as are remembered fit; then the older half goes.

    A record at `offset` of a block was written at base + offset · slope. Behind the last block stands one that begins
    after all offsets.
    """

    def __init__(self, remembered: int) -> None:
        self.end = -1
        self._remembered = remembered
        self._count = 0
        size = 2 * remembered
        self._ends = np.zeros(size, np.int64)
        self._first = np.full(size + 1, _NOWHERE, np.int64)
        self._base, self._slope = np.zeros(size + 1), np.zeros(size + 1)

    def add(self, first: int, end: int, begun: float, ended: float) -> None:
        if self._count == len(self._ends):
            self._forget()
        at, slope = self._count, (ended - begun) / max(end - first - 1, 1)
        self._ends[at], self._first[at], self._base[at], self._slope[at] = end, first, begun - first * slope, slope
        self._count += 1
        self.end = end

    def _forget(self) -> None:
        for each in (self._ends, self._first, self._base, self._slope):
            each[: self._remembered] = each[self._remembered : 2 * self._remembered]
        self._first[self._remembered :] = _NOWHERE
        self._count = self._remembered

    def times(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        at = np.searchsorted(self._ends[: self._count], offsets, side="right")
        times = self._base[at] + offsets * self._slope[at]
        times[offsets < self._first[at]] = np.nan
        return times
