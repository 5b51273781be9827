"""What one partition of `propagation` has received: the value under the reserved key.

It is committed together with the rows that it accounts for, so after a crash the state itself says where reading goes
on and which half-edges it already holds. It knows neither Kafka nor the engine.
"""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stream_tgat.errors import LostDataError
from stream_tgat.wire.packets import Source, SourceTopic

#: The one key of the state that no graph key can equal: all of those begin with a letter.
RESERVED_KEY: Final = b"\x00progress"

NOTHING: Final = -math.inf
EVERYTHING: Final = math.inf

_FORMAT: Final = 3
_HEADER = struct.Struct("<BxHIqqq")
_SOURCE = struct.Struct("<BxxxIqdd")


@dataclass(slots=True)
class SourceProgress:
    """How far one source has been received by one partition of `propagation`.

    end: the next offset wanted; everything below it is in the state.
    watermark: "every event of this source before this time is in the state", unix seconds.
    promised: the highest time before which the source's own records promised no more events; an earlier event is late.
    """

    end: int
    watermark: float = NOTHING
    promised: float = NOTHING


@dataclass(slots=True)
class Progress:
    """The reserved key of one partition.

    offset: the last record of `propagation` in the state, -1 before the first.
    model: the version that the partition's last output was computed with, -1 before the first.
    epoch: kept for the ownership epoch; 0 until that exists.
    layout: fingerprint of the fixed-width formats that the state was written with.
    """

    layout: int
    offset: int = -1
    model: int = -1
    epoch: int = 0
    sources: dict[Source, SourceProgress] = field(default_factory=dict)

    def receive(self, source: Source, first: int, end: int, watermark: float, promised: float) -> tuple[int, float]:
        """Take note of the block [first, end) of a source, as sent by ingest.

        Returns the lowest offset that is new, and the promise that held before the block: whoever applies the block
        skips what lies below the former and marks as late what lies before the latter.
        Raises LostDataError if the block begins after the offset that is wanted next.
        """
        known = self.sources.get(source)
        if known is None:
            # Nothing of this source was ever received, so its first block defines where it begins.
            self.sources[source] = SourceProgress(end, watermark, promised)
            return first, NOTHING
        if first > known.end:
            raise LostDataError(
                f"{source.topic.name.lower()}/{source.partition}: offsets {known.end} to {first - 1} never arrived on "
                f"`propagation` (record {self.offset}). They were lost between ingest and here, most likely because "
                "the topic's retention deleted them unread or its consumer group was reset. To go on, use another "
                "kafka.topic_prefix and replay the log."
            )
        fresh, before = known.end, known.promised
        known.end = max(known.end, end)
        known.watermark = max(known.watermark, watermark)
        known.promised = max(known.promised, promised)
        return fresh, before

    def watermark(self, expected: Iterable[Source]) -> float:
        """The smallest watermark of all sources, expected or heard of; minus infinity for one not heard of yet."""
        smallest = EVERYTHING
        for source in {*expected, *self.sources}:
            known = self.sources.get(source)
            if known is None:
                return NOTHING
            smallest = min(smallest, known.watermark)
        return smallest

    def encode(self) -> bytes:
        """The value of the reserved key."""
        parts = [_HEADER.pack(_FORMAT, len(self.sources), self.layout, self.offset, self.model, self.epoch)]
        parts += [
            _SOURCE.pack(source.topic, source.partition, known.end, known.watermark, known.promised)
            for source, known in sorted(self.sources.items())
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, value: bytes) -> "Progress":
        """The inverse of `encode`."""
        form, count, layout, offset, model, epoch = _HEADER.unpack_from(value)
        if form != _FORMAT:
            raise LostDataError(
                f"The state on disk has format {form}, this version of the software reads {_FORMAT}: "
                "use another kafka.topic_prefix and replay the log."
            )
        progress = cls(layout, offset, model, epoch)
        for topic, partition, end, watermark, promised in _SOURCE.iter_unpack(
            value[_HEADER.size : _HEADER.size + count * _SOURCE.size]
        ):
            progress.sources[Source(SourceTopic(topic), partition)] = SourceProgress(end, watermark, promised)
        return progress
