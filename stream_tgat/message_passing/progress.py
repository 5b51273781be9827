"""What one partition of `propagation` has received: the value under the reserved key.

It is committed together with the rows that it accounts for, so after a crash the state itself says where reading goes
on and which half-edges it already holds. How far the sources are is a value of its own: partitions that have received
the same blocks share it, so that however many there are, a cycle of ingest is worked out once. It knows neither Kafka
nor the engine.
"""

import math
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from stream_tgat.errors import FormatError, LostDataError
from stream_tgat.wire.packets import Source, SourceTopic, decode_blocks

#: The one key of the state that no graph key can equal: all of those begin with a letter.
RESERVED_KEY: Final = b"\x00progress"

NOTHING: Final = -math.inf
EVERYTHING: Final = math.inf

#: Of all that is kept of a partition: this key, its identity, and the keys and values of `storage.layout`. Raise it
#: with any change that a version before would read wrongly, and say in docs/upgrading.md what to do.
STATE_FORMAT: Final = 5
_HEADER = struct.Struct("<BxHIqq8xddq")
_SOURCE = struct.Struct("<B?xxIqd")
#: Steps that are remembered: from a few tables, which become one as blocks go on, by the blocks of many workers.
_REMEMBERED: Final = 256


class SourceProgress(NamedTuple):
    """How far one source has been received by one partition of `propagation`.

    end: the next offset wanted; everything below it is in the state.
    watermark: "every event of this source before this time is in the state", unix seconds.
    is_idle: nothing has come from it for so long that the others do not wait for it, until something comes again.
    """

    end: int
    watermark: float = NOTHING
    is_idle: bool = False


@dataclass(frozen=True)
class SourceTable:
    """How far all sources have been received that were heard of.

    encoded: its bytes under the reserved key; equal tables have equal bytes
    """

    encoded: bytes = b""

    @cached_property
    def of(self) -> Mapping[Source, SourceProgress]:
        """Each source."""
        return {
            Source(SourceTopic(topic), partition): SourceProgress(end, watermark, is_idle)
            for topic, is_idle, partition, end, watermark in _SOURCE.iter_unpack(self.encoded)
        }

    @cached_property
    def watermark(self) -> float:
        """The smallest watermark of sources that are not idle, and no more than the largest of any of interactions."""
        smallest = min((known.watermark for known in self.of.values() if not known.is_idle), default=EVERYTHING)
        furthest = max(
            (known.watermark for source, known in self.of.items() if source.topic is SourceTopic.INTERACTIONS),
            default=NOTHING,
        )
        return min(smallest, furthest)

    def watermark_of(self, source: Source) -> float:
        """Up to where a source is received: minus infinity before it is heard of, plus infinity while it is idle."""
        known = self.of.get(source)
        return NOTHING if known is None else EVERYTHING if known.is_idle else known.watermark


@lru_cache(_REMEMBERED)
def _step(table: SourceTable, blocks: bytes) -> tuple[SourceTable, Mapping[Source, int]]:
    """The table once these blocks of a packet are received; and the sources of which something comes again.

    Of each of these, the lowest offset that is new.   Raises LostDataError, see `PartitionProgress.receive`.
    """
    known, again = dict(table.of), {}
    for source, first, end, watermark, is_idle, _ in decode_blocks(blocks):
        before = known.get(source)
        if before is None:
            # Nothing of this source was ever received, so its first block defines where it begins.
            known[source] = SourceProgress(end, watermark, is_idle)
            continue
        if first > before.end:
            raise LostDataError(
                f"{source}: offsets {before.end} to {first - 1} never arrived on "
                "`propagation`. They were lost between ingest and here, most likely because the topic's retention "
                "deleted them unread or its consumer group was reset. To go on, use another kafka.topic_prefix and "
                "replay the log."
            )
        if first < before.end:
            again[source] = before.end
        known[source] = SourceProgress(max(before.end, end), max(before.watermark, watermark), is_idle)
    encoded = b"".join(
        _SOURCE.pack(source.topic, each.is_idle, source.partition, each.end, each.watermark)
        for source, each in sorted(known.items())
    )
    return SourceTable(encoded), again


@dataclass(slots=True)
class PartitionProgress:
    """The reserved key of one partition.

    offset: the last record of `propagation` in the state, -1 before the first.
    model: the version that the partition's last output was computed with, -1 before the first.
    passed: the watermark of the partition: rows before it may have been computed. It never falls.
    newest: the largest time of an event that was told of, whoever owns it: somebody waits until all sources are there.
    waiting: rows of the partition that `passed` has not reached, for `status`.
    layout: fingerprint of the fixed-width formats that the state was written with.
    """

    layout: int
    offset: int = -1
    model: int = -1
    passed: float = NOTHING
    newest: float = NOTHING
    waiting: int = 0
    sources: SourceTable = SourceTable()

    def receive(self, blocks: bytes, newest: float = NOTHING) -> Mapping[Source, int]:
        """Take note of the blocks of a packet, as sent by ingest.

        Returns the sources of which something comes again, and of each the lowest offset that is new: whoever applies
        the packet skips what lies below.
        Raises LostDataError if a block begins after the offset that is wanted next.
        """
        self.sources, again = _step(self.sources, blocks)
        self.newest = max(self.newest, newest)
        return again

    def advance(self, expected: Collection[Source]) -> float:
        """Raise `passed` to the smallest watermark of all sources, expected or heard of, and return it.

        One not heard of yet holds back everything.
        """
        sources = self.sources
        if sources.watermark > self.passed and expected and all(map(sources.of.__contains__, expected)):
            self.passed = sources.watermark
        return self.passed

    def encode(self) -> bytes:
        """The value of the reserved key."""
        sources = self.sources.encoded
        header = _HEADER.pack(
            STATE_FORMAT,
            len(sources) // _SOURCE.size,
            self.layout,
            self.offset,
            self.model,
            self.passed,
            self.newest,
            self.waiting,
        )
        return header + sources

    @classmethod
    def decode(cls, value: bytes) -> "PartitionProgress":
        """The inverse of `encode`.

        Raises FormatError for the state of another version, LostDataError for bytes that no worker writes.
        """
        form = value[0] if value else 0
        if form != STATE_FORMAT:
            raise FormatError(
                f"The state has format {form} and this version of stream-tgat reads format {STATE_FORMAT}, so "
                f"{'a newer' if form > STATE_FORMAT else 'an older'} version wrote it: run that version, or use "
                "another kafka.topic_prefix and replay the log."
            )
        try:
            return cls._unpacked(value)
        except (struct.error, ValueError) as problem:
            raise LostDataError(
                f"The state holds a progress that no worker writes ({problem}): somebody else writes into its "
                "changelog. Use another kafka.topic_prefix and replay the log."
            ) from None

    @classmethod
    def _unpacked(cls, value: bytes) -> "PartitionProgress":
        _, count, layout, offset, model, passed, newest, waiting = _HEADER.unpack_from(value)
        sources = SourceTable(value[_HEADER.size : _HEADER.size + count * _SOURCE.size])
        if len(sources.of) != count:
            raise ValueError("a source is missing, or there twice")
        return cls(layout, offset, model, passed, newest, waiting, sources)
