"""When ingest has to wait. Propagate never waits: the peer embeddings that free its pending rows lie ahead of it."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stream_tgat.message_passing.progress import NOTHING
from stream_tgat.wire.packets import Source, SourceTopic


@dataclass
class Throttle:
    """Bounds what lies between ingest and the embeddings: unread bytes and pending rows.

    It counts bytes and not records: how far other workers have come is known only now and then, and meanwhile a live
    stream sends many small records, of which a backlog is not made.

    window_bytes: of what this worker has sent to a partition of `propagation`, so much may be unread there.
    max_pending: rows that this worker may have pending.
    """

    window_bytes: int
    max_pending: int
    # By partition of `propagation`: what was sent there and is not known to be read, as (offset, bytes), and the sum
    _unread: dict[int, deque[tuple[int, int]]] = field(default_factory=dict)
    _bytes: dict[int, int] = field(default_factory=dict)

    def sent(self, partition: int, offset: int, size: int) -> None:
        """Take note of a record of `size` bytes that the brokers have acknowledged."""
        self._unread.setdefault(partition, deque()).append((offset, size))
        self._bytes[partition] = self._bytes.get(partition, 0) + size

    def read(self, partition: int, end: int) -> None:
        """Take note that the owner of a partition has read everything before offset `end`."""
        unread = self._unread.get(partition, ())
        while unread and unread[0][0] < end:
            self._bytes[partition] -= unread.popleft()[1]

    def backlog(self) -> int:
        """Unread bytes in the fullest partition, among those sent by this worker."""
        return max(self._bytes.values(), default=0)

    @property
    def window_is_full(self) -> bool:
        """Whether all sources must wait."""
        return self.backlog() > self.window_bytes

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
