"""The log from its beginning, partition beside partition, for whoever can only take so much ahead of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from stream_tgat.brokers import written_at
from stream_tgat.errors import TopicError
from stream_tgat.message_passing.packing import SourceRecord
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.renewal.reencoder import is_interactions
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import lone_consumer, topic_range
from stream_tgat.wire import Headers
from stream_tgat.wire.packets import Source

_POLL_MS: Final = 200


@dataclass(slots=True)
class _Record:
    """A record as the packer reads it: the client's has its time in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    @classmethod
    def of(cls, each: Any) -> "_Record":
        return cls(each.topic, each.partition, each.offset, written_at(each), each.key, each.value, each.headers)


class SourceLog:
    """`interactions` and `nodes`. first: where each of their partitions begins"""

    def __init__(self, topology: Topology) -> None:
        self.first: dict[Source, int] = {}
        self._places: dict[TopicPartition, Source] = {}
        for name, role in source_topics(topology).items():
            for partition, (first, _) in topic_range(topology, name).items():
                self.first[role.source(partition)] = first
                self._places[TopicPartition(name, partition)] = role.source(partition)
        # Little at a time, so that partitions advance together and little waits for those behind.
        self._consumer = lone_consumer(topology, fetch_bytes=1 << 20)
        self._positions = dict(self.first)
        self._free: set[Source] = set()

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def ends(self) -> dict[Source, int]:
        """The offset that the next record of each source will get."""
        return {self._places[place]: end for place, end in self._consumer.end_offsets(list(self._places)).items()}

    def poll(self, free: set[Source], at_most: int) -> tuple[dict[Source, Sequence[SourceRecord]], dict[Source, int]]:
        """Records of the sources that are free, in offset order, and the next offset of every source after them.

        Offsets that hold no record, as transactions and compaction leave them, are passed without one. Raises
        TopicError where records were deleted before they were read: what follows cannot be computed without them.
        """
        if free != self._free:
            # Not paused and resumed: the client may then keep for ever what it had fetched of a partition.
            places = {place: source for place, source in self._places.items() if source in free}
            self._consumer.assign(list(places))
            for place, source in places.items():
                self._consumer.seek(place, self._positions[source])
            self._free = set(free)
        try:
            polled = self._consumer.poll(timeout_ms=_POLL_MS, max_records=at_most)
        except OffsetOutOfRangeError as problem:
            place, offset = next(iter(problem.args[0].items()))
            raise TopicError(
                f"{place.topic}/{place.partition}: offset {offset} passed its retention before it was read. Start "
                "again: the log is then read from where it begins now."
            ) from problem
        self._positions |= {
            self._places[place]: self._consumer.position(place) for place in self._consumer.assignment()
        }
        found: dict[Source, Sequence[SourceRecord]] = {
            self._places[place]: [_Record.of(each) for each in some] for place, some in polled.items() if some
        }
        return found, dict(self._positions)

    @staticmethod
    def at_end(
        positions: Mapping[Source, int], ends: Mapping[Source, int], now: float, *, by_the_clock: bool
    ) -> dict[Source, float]:
        """The sources that are at their end, and the time until which that is known.

        Interactions may still come that are older, unless the deployment goes by the clock.
        """
        return {
            source: now
            for source, position in positions.items()
            if position >= ends[source] and (by_the_clock or not is_interactions(source))
        }
