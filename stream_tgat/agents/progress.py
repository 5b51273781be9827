"""What one partition of `propagation` has received: the value under the reserved key.

It is committed together with the rows that it accounts for, so after a crash the state itself says where reading goes
on and which half-edges it already holds. It knows neither Kafka nor the engine.
"""

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from stream_tgat.errors import LostDataError
from stream_tgat.wire.packets import Source, SourceTopic

#: The one key of the state that no graph key can equal: all of those begin with a letter.
RESERVED_KEY: Final = b"\x00progress"

NOTHING: Final = -math.inf
EVERYTHING: Final = math.inf

_FORMAT: Final = 4
_HEADER = struct.Struct("<BxHIqqqdq")
_SOURCE = struct.Struct("<B?xxIqd")


@dataclass(slots=True)
class SourceProgress:
    """How far one source has been received by one partition of `propagation`.

    end: the next offset wanted; everything below it is in the state.
    watermark: "every event of this source before this time is in the state", unix seconds.
    is_idle: nothing has come from it for so long that the others do not wait for it, until something comes again.
    """

    end: int
    watermark: float = NOTHING
    is_idle: bool = False


@dataclass(slots=True)
class Progress:
    """The reserved key of one partition.

    offset: the last record of `propagation` in the state, -1 before the first.
    model: the version that the partition's last output was computed with, -1 before the first.
    epoch: kept for the ownership epoch; 0 until that exists.
    passed: the watermark of the partition: rows before it may have been computed. It never falls.
    waiting: rows of the partition that `passed` has not reached, for `status`.
    layout: fingerprint of the fixed-width formats that the state was written with.
    """

    layout: int
    offset: int = -1
    model: int = -1
    epoch: int = 0
    passed: float = NOTHING
    waiting: int = 0
    sources: dict[Source, SourceProgress] = field(default_factory=dict)

    def receive(self, source: Source, first: int, end: int, watermark: float, is_idle: bool = False) -> int:
        """Take note of the block [first, end) of a source, as sent by ingest.

        Returns the lowest offset that is new: whoever applies the block skips what lies below.
        Raises LostDataError if the block begins after the offset that is wanted next.
        """
        known = self.sources.get(source)
        if known is None:
            # Nothing of this source was ever received, so its first block defines where it begins.
            self.sources[source] = SourceProgress(end, watermark, is_idle)
            return first
        if first > known.end:
            raise LostDataError(
                f"{source.topic.name.lower()}/{source.partition}: offsets {known.end} to {first - 1} never arrived on "
                f"`propagation` (record {self.offset}). They were lost between ingest and here, most likely because "
                "the topic's retention deleted them unread or its consumer group was reset. To go on, use another "
                "kafka.topic_prefix and replay the log."
            )
        fresh = known.end
        known.end = max(known.end, end)
        known.watermark = max(known.watermark, watermark)
        known.is_idle = is_idle
        return fresh

    def advance(self, expected: Collection[Source]) -> float:
        """Raise `passed` to the smallest watermark of all sources, expected or heard of, and return it.

        One not heard of yet holds back everything; an idle one holds back nothing, but nobody is further than the
        furthest source.
        """
        if expected and all(source in self.sources for source in expected):
            smallest, furthest = EVERYTHING, NOTHING
            for source, known in self.sources.items():
                if not known.is_idle:
                    smallest = min(smallest, known.watermark)
                if source.topic is SourceTopic.INTERACTIONS:
                    furthest = max(furthest, known.watermark)
            self.passed = max(self.passed, min(smallest, furthest))
        return self.passed

    def watermark_of(self, source: Source) -> float:
        """Up to where a source is received: minus infinity before it is heard of, plus infinity while it is idle."""
        known = self.sources.get(source)
        return NOTHING if known is None else EVERYTHING if known.is_idle else known.watermark

    def encode(self) -> bytes:
        """The value of the reserved key."""
        parts = [
            _HEADER.pack(
                _FORMAT,
                len(self.sources),
                self.layout,
                self.offset,
                self.model,
                self.epoch,
                self.passed,
                self.waiting,
            )
        ]
        parts += [
            _SOURCE.pack(source.topic, known.is_idle, source.partition, known.end, known.watermark)
            for source, known in sorted(self.sources.items())
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, value: bytes) -> "Progress":
        """The inverse of `encode`. Raises LostDataError for bytes that no worker of this version writes."""
        if value[:1] != bytes([_FORMAT]):
            form = value[0] if value else "none"
            raise LostDataError(
                f"The state on disk has format {form}, this version of the software reads {_FORMAT}: "
                "use another kafka.topic_prefix and replay the log."
            )
        try:
            return cls._unpacked(value)
        except (struct.error, ValueError) as problem:
            raise LostDataError(
                f"The state holds a progress that no worker writes ({problem}): somebody else writes into its "
                "changelog. Use another kafka.topic_prefix and replay the log."
            ) from None

    @classmethod
    def _unpacked(cls, value: bytes) -> "Progress":
        _, count, layout, offset, model, epoch, passed, waiting = _HEADER.unpack_from(value)
        progress = cls(layout, offset, model, epoch, passed, waiting)
        for topic, is_idle, partition, end, watermark in _SOURCE.iter_unpack(
            value[_HEADER.size : _HEADER.size + count * _SOURCE.size]
        ):
            progress.sources[Source(SourceTopic(topic), partition)] = SourceProgress(end, watermark, is_idle)
        return progress
