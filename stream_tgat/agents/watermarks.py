"""How far event time has come in one source, as ingest tells it to the owners of nodes.

A watermark W of a source says that all of its events before W have been handed on; propagate waits with the embedding
of an event at time t until every source says W >= t. It knows times only: no records, no Kafka.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.agents.progress import EVERYTHING, NOTHING


@dataclass(slots=True)
class SourceClock:
    """Watermark of one partition of `interactions`.

    allowed_lateness_s: how far an event may lie before the newest one. Negative: the watermark runs ahead of the
    events, so live ones pass at once and unordered.
    watermark: what ingest announces.
    promised: the part of it that rests on the source's own records and not on our clock or on a negative lateness.
    Only what comes before that is *late*: a live event is always a little older than the clock, and would otherwise
    never raise an alert.
    """

    allowed_lateness_s: float
    watermark: float = NOTHING
    promised: float = NOTHING

    def read(self, times: NDArray[np.float64], punctuation: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Records were read, in offset order: events at `times` f8[n], or punctuation (nothing before it will follow).

        Returns bool[n], True where an event comes before a time that had been promised: how records fall into batches
        makes no difference to it.
        """
        if not len(times):
            return np.zeros(0, np.bool_)
        promises = np.where(punctuation, times, times - max(self.allowed_lateness_s, 0.0))
        running = np.maximum.accumulate(np.concatenate(([self.promised], promises)))
        self.promised = float(running[-1])
        announced = float(np.where(punctuation, times, times - self.allowed_lateness_s).max())
        self.watermark = max(self.watermark, announced)
        late: NDArray[np.bool_] = (times < running[:-1]) & ~punctuation
        return late

    def caught_up(self, now: float) -> None:
        """The end of the source was reached at `now` (unix seconds): for all one knows, nothing older is on its way."""
        self.watermark = max(self.watermark, now - self.allowed_lateness_s)


@dataclass(slots=True)
class NodesClock:
    """Watermark of one partition of `nodes`: it holds everything back until the partition was read to its end once."""

    watermark: float = NOTHING
    promised: float = NOTHING

    def caught_up(self) -> None:
        """The end of the source was reached; from now on nothing waits for it."""
        self.watermark = EVERYTHING
