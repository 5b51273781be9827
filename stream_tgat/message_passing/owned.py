"""The partitions of `propagation` that a worker has, and what is known of all of them together."""

from collections.abc import Collection, Mapping

from stream_tgat.message_passing.partition import Partition
from stream_tgat.message_passing.progress import EVERYTHING
from stream_tgat.wire.packets import Source


class OwnedPartitions(dict[int, Partition]):
    """Each partition by its number. One thread puts them in and takes them out; others may read meanwhile."""

    @property
    def newest(self) -> float:
        """The largest time of an event that any was told of; plus infinity without any."""
        return max((each.progress.newest for each in self._now()), default=EVERYTHING)

    @property
    def named_model(self) -> int:
        """The newest model that has served any of them, here or elsewhere; -1 before the first."""
        return max((each.progress.model for each in self._now()), default=-1)

    @property
    def committed_offsets(self) -> dict[int, int]:
        """The last record that each has in its committed state."""
        return {each.number: each.committed_offset for each in self._now()}

    @property
    def has_waiting(self) -> bool:
        """Whether records that were read or heard have not been received."""
        return any(each.waiting for each in self.values())

    def source_watermarks(self, sources: Collection[Source]) -> Mapping[Source, float]:
        """The watermark of each of these sources as received, the smallest over the partitions.

        Plus infinity for one that is idle: nobody waits for it.
        """
        tables = {each.progress.sources for each in self._now()}
        return {source: min(table.watermark_of(source) for table in tables) for source in sources} if tables else {}

    def received(self) -> list[tuple[Source, int]]:
        """Sources, and the offsets below which all of their records are in some partition."""
        return [(source, known.end) for each in self._now() for source, known in each.progress.sources.of.items()]

    def is_due(self, now: float) -> bool:
        """Whether any has something to commit at `now` (monotonic seconds)."""
        return any(each.is_due(now) for each in self.values())

    def _now(self) -> tuple[Partition, ...]:
        return tuple(self.values())
