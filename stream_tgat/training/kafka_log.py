"""Reads topics from one offset to another and stops there: what training needs of Kafka, and nothing of groups.

The end is asked for once, before reading. It is reached by position, never by the number of records: compaction and
transactions leave offsets without a record.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from uuid import UUID

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from stream_tgat.brokers import admin_client, consumer, describe_topics
from stream_tgat.errors import MissingTopicError, TopicError
from stream_tgat.topology import Topology

_log = logging.getLogger(__name__)

POLL_MS = 500
STALL_S = 30.0

Range = dict[int, tuple[int, int]]
"""{partition: (first offset, end offset)}: a part of a topic; the end is not included."""


def topic_range(topology: Topology, topic: str) -> Range:
    """All that a topic holds now."""
    with _LogConsumer(topology) as client:
        return client.range_of(topic)


def read_topic(
    topology: Topology,
    topic: str,
    part: Range | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[Any]:
    """Records of a topic, those of one partition in order; by default all it holds now.

    Yields kafka-python's records: topic, partition, offset, timestamp, key, value, headers. Raises TopicError where the
    topic is missing, holds less than asked for, or gives nothing for half a minute. What passes its retention while
    others are read is left out, with a warning.
    progress: told (offsets passed, offsets in all)
    """
    with _LogConsumer(topology) as client:
        present = client.range_of(topic)
        part = present if part is None else _within(topic, part, present)
        yield from client.read(topic, part, progress)


def still_there(topology: Topology, topic: str, part: Range) -> tuple[Range, int]:
    """What a topic still holds of a part, and how many of its offsets have passed their retention.

    Raises TopicError where the part goes beyond the topic's end: then the topic is another one.
    """
    present = topic_range(topology, topic)
    left = {
        partition: (min(max(first, present.get(partition, (0, 0))[0]), end), end)
        for partition, (first, end) in part.items()
    }
    return _within(topic, left, present), sum(left[each][0] - part[each][0] for each in part)


def topic_ids(topology: Topology, topics: Sequence[str]) -> dict[str, UUID]:
    """Which topics bear these names now: the id that each was given when it was created, where the brokers tell it."""
    try:
        with closing(admin_client(topology.kafka)) as admin:
            found = describe_topics(admin, topics)
    except KafkaError as problem:
        raise TopicError(
            f"The topics at {topology.kafka.bootstrap_servers} cannot be described: {problem!r}"
        ) from problem
    return {name: each.id for name, each in found.items() if each.id is not None}


def lone_consumer(topology: Topology, fetch_bytes: int = 8 << 20) -> KafkaConsumer:
    """A consumer without a group, which reads what it is assigned and makes no topic; whoever asks for it closes it.

    fetch_bytes: of one partition at a time; records of one follow each other for as long
    """
    try:
        return consumer(
            topology.kafka,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            max_poll_records=10_000,
            max_partition_fetch_bytes=fetch_bytes,
        )
    except KafkaError as problem:
        raise TopicError(
            f"No Kafka at {topology.kafka.bootstrap_servers}: {problem!r}; is the broker running?"
        ) from problem


def _within(topic: str, part: Mapping[int, tuple[int, int]], present: Range) -> Range:
    """The part, if the topic still holds all of it."""
    for partition, (first, end) in part.items():
        begin, stop = present.get(partition, (0, 0))
        if end > first and (first < begin or end > stop):
            raise TopicError(
                f"{topic}/{partition} holds offsets {begin} to {stop}, but {first} to {end} were asked for; older "
                "records have passed their retention, or the topic was created anew"
            )
    return dict(part)


class _LogConsumer:
    """A kafka-python consumer without a group."""

    def __init__(self, topology: Topology) -> None:
        self.servers = topology.kafka.bootstrap_servers
        self.client = lone_consumer(topology)

    def __enter__(self) -> "_LogConsumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def range_of(self, topic: str) -> Range:
        # Asked for by name, a broker may create it; so the list of all topics is asked for first.
        partitions = self.client.partitions_for_topic(topic) if topic in self.client.topics() else None
        if not partitions:
            raise MissingTopicError(
                f"There is no topic {topic!r} at {self.servers}; create it: faust -A stream_tgat topics create"
            )
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        try:
            first, end = self.client.beginning_offsets(places), self.client.end_offsets(places)
        except KafkaError as problem:
            raise TopicError(f"The offsets of {topic!r} at {self.servers} cannot be read: {problem!r}") from problem
        return {place.partition: (first[place], end[place]) for place in places}

    def read(self, topic: str, part: Range, progress: Callable[[int, int], None]) -> Iterator[Any]:
        ends = {TopicPartition(topic, p): end for p, (first, end) in part.items() if end > first}
        total = sum(end - first for first, end in part.values())
        left = {place: end - part[place.partition][0] for place, end in ends.items()}
        self.client.assign(list(ends))
        for place in ends:
            self.client.seek(place, part[place.partition][0])
        progress(0, total)
        moved = time.monotonic()
        while ends:
            polled = self._poll(topic)
            for place, messages in polled.items():
                yield from (message for message in messages if message.offset < ends.get(place, 0))
            positions = {place: self.client.position(place) for place in ends}
            before = sum(left.values())
            left |= {place: max(end - positions[place], 0) for place, end in ends.items()}
            progress(total - sum(left.values()), total)
            # By position here too: a long transaction that was taken back is passed without a record.
            if sum(left.values()) < before:
                moved = time.monotonic()
            elif time.monotonic() - moved > STALL_S:
                raise TopicError(f"{topic!r} at {self.servers} gave nothing for {STALL_S:.0f} s before its end: {ends}")
            done = [place for place, end in ends.items() if positions[place] >= end]
            for place in done:
                del ends[place]
            if done:
                self.client.pause(*done)

    def _poll(self, topic: str) -> dict[TopicPartition, list[Any]]:
        """What has come; where records passed their retention while others were read, reading goes on behind them.

        What is left of a log is a log; but that a stretch is missing in the middle of what was read is told.
        """
        try:
            found: dict[TopicPartition, list[Any]] = self.client.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as problem:
            places: Mapping[TopicPartition, int] = problem.args[0]
            begin = self.client.beginning_offsets(list(places))
            for place, offset in places.items():
                if begin[place] <= offset:
                    raise TopicError(
                        f"{topic}/{place.partition} no longer holds offset {offset}: was the topic created anew?"
                    ) from problem
                _log.warning(
                    "%s/%s: offsets %s to %s passed their retention while the topic was read, and are missing in what "
                    "was read of it",
                    *(topic, place.partition, offset, begin[place] - 1),
                )
                self.client.seek(place, begin[place])
            return {}
        return found
