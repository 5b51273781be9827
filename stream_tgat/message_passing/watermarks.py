"""How far event time has come in one source, as ingest tells it to the owners of nodes.

A watermark W of a source says that all of its events before W have been handed on; propagate waits with the embedding
of an event at time t until every source says W >= t. It knows times only: no records, no Kafka.
"""

from dataclasses import dataclass

from stream_tgat.message_passing.progress import EVERYTHING, NOTHING


@dataclass(slots=True)
class SourceClock:
    """Watermark of one partition of `interactions`.

    allowed_lateness_s: how far an event may lie before the newest one, or arrive behind the clock. Negative: the
    watermark runs ahead of both, so that live events pass at once and unordered.
    is_live: an event does not move it beyond the time at which its record was written, since what follows is written
    later. A producer whose clock is ahead would else make all others late.
    """

    allowed_lateness_s: float
    is_live: bool = False
    watermark: float = NOTHING

    def read(self, time: float, written: float) -> None:
        """An event at `time` was read. written: unix seconds at which it came to its broker"""
        seen = min(time, written) if self.is_live else time
        self.watermark = max(self.watermark, seen - self.allowed_lateness_s)

    def punctuate(self, watermark: float) -> None:
        """Its producer says that nothing before `watermark` follows."""
        self.watermark = max(self.watermark, watermark)

    def caught_up(self, seen_at: float) -> None:
        """Note that at `seen_at` (unix seconds) all was read that the broker had: what follows is written later."""
        self.watermark = max(self.watermark, seen_at - self.allowed_lateness_s)


@dataclass(slots=True)
class NodesClock:
    """Watermark of one partition of `nodes`: it holds everything back until the partition was read to its end once."""

    watermark: float = NOTHING

    def caught_up(self) -> None:
        """The end of the source was reached; from now on nothing waits for it."""
        self.watermark = EVERYTHING
