"""When ingest has to wait. Propagate never waits: the memos that free its pending rows lie ahead of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stream_tgat.agents.progress import NOTHING
from stream_tgat.wire.packets import Source, SourceTopic


@dataclass
class Throttle:
    """Bounds what lies between ingest and the embeddings: unread records and pending rows.

    window: records that a partition of `propagation` may hold unread.
    max_pending: rows that this worker may have pending.
    sent: offset behind the last record that this worker has put into each partition of `propagation`.
    read: offset behind the last record that its owner has read, for each partition where that is known.
    """

    window: int
    max_pending: int
    sent: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)

    def backlog(self) -> int:
        """Unread records of the fullest partition, among those sent to by this worker."""
        return max(
            (end - self.read[partition] for partition, end in self.sent.items() if partition in self.read), default=0
        )

    @property
    def window_is_full(self) -> bool:
        """Whether all sources must wait."""
        return self.backlog() > self.window

    def free(
        self,
        sources: Iterable[Source],
        watermarks: Mapping[Source, float],
        expected: Iterable[Source],
        pending: int,
        is_computing: bool = False,
    ) -> set[Source]:
        """Those of `sources` that may go on while this worker has `pending` rows.

        watermarks: how far each source has come; one without counts as minus infinity.
        expected: all sources of the deployment. The one with the smallest watermark is what pending rows wait for, so
        it alone goes on, wherever it is read; node features make no rows and always pass.
        is_computing: rows are ready and only wait for their turn, so that nothing needs to be read to go on.
        """
        if pending <= self.max_pending:
            return set(sources)
        if is_computing:
            return {source for source in sources if source.topic is SourceTopic.NODES}
        smallest = min((watermarks.get(source, NOTHING) for source in expected), default=NOTHING)
        return {
            source
            for source in sources
            if source.topic is SourceTopic.NODES or watermarks.get(source, NOTHING) <= smallest
        }
