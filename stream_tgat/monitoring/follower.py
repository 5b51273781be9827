"""Reads the newest part of some topics and goes on as more comes: one kafka-python consumer, without a group."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_tgat.brokers import consumer
from stream_tgat.errors import TopicError
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import topic_range

_POLL_S: Final = 0.5
_AT_ONCE: Final = 2000
_NEW_PARTITIONS_S: Final = 30.0
_STALL_S: Final = 30.0


class Follower:
    """Records of some topics, from a bounded place back in each; those of one partition in order."""

    def __init__(self, topology: Topology, back: Mapping[str, int]) -> None:
        """back: {topic with its prefix: records to look back for, at most, evenly over its partitions}"""
        self._servers = topology.kafka.bootstrap_servers
        starts = {
            TopicPartition(topic, partition): max(first, end - -(-most // len(part)))
            for topic, most in back.items()
            for part in (topic_range(topology, topic),)
            for partition, (first, end) in part.items()
        }
        self._topics = tuple(back)
        self._looked_for_partitions = time.monotonic()
        with self._kafka_errors_as_ours():
            self._client = consumer(
                topology.kafka,
                group_id=None,
                enable_auto_commit=False,
                # What retention has taken away meanwhile is passed over.
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                max_poll_records=_AT_ONCE,
                # A second more or less does not matter here, and few large answers cost the brokers less.
                fetch_min_bytes=1 << 18,
                fetch_max_wait_ms=int(_POLL_S * 1000),
                fetch_max_bytes=8 << 20,
                metadata_max_age_ms=int(_NEW_PARTITIONS_S * 1000),
            )
            self._client.assign(list(starts))
            for place, start in starts.items():
                self._client.seek(place, start)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def behind(self) -> int:
        """Records that are there and not read yet."""
        return self._before(self._ends())

    def new(self, budget_s: float) -> Iterator[list[Any]]:
        """What comes within `budget_s` seconds, in batches."""
        self._take_new_partitions()
        end = time.monotonic() + budget_s
        while (left := end - time.monotonic()) > 0:
            batch = self._poll(min(left, _POLL_S))
            if batch:
                yield batch

    def all_there_is(self, progress: Callable[[int, int], None]) -> Iterator[list[Any]]:
        """All up to the present end, in batches; progress is told (records done, records in all)."""
        ends = self._ends()
        left = total = self._before(ends)
        progress(0, total)
        moved = time.monotonic()
        while left:
            batch = self._poll(_POLL_S)
            if batch:
                yield batch
            before, left = left, self._before(ends)
            progress(total - left, total)
            if left < before:
                moved = time.monotonic()
            elif time.monotonic() - moved > _STALL_S:
                raise TopicError(f"the broker at {self._servers} gave nothing for {_STALL_S:.0f} s; is it well?")

    def _poll(self, timeout_s: float) -> list[Any]:
        with self._kafka_errors_as_ours():
            polled = self._client.poll(timeout_ms=int(timeout_s * 1000))
        return [record for records in polled.values() for record in records]

    def _ends(self) -> dict[TopicPartition, int]:
        with self._kafka_errors_as_ours():
            return dict(self._client.end_offsets(list(self._client.assignment())))

    def _before(self, ends: Mapping[TopicPartition, int]) -> int:
        with self._kafka_errors_as_ours():
            return sum(max(end - self._client.position(place), 0) for place, end in ends.items())

    def _take_new_partitions(self) -> None:
        """`interactions` may gain partitions; they are read from their beginning."""
        if time.monotonic() - self._looked_for_partitions < _NEW_PARTITIONS_S:
            return
        self._looked_for_partitions = time.monotonic()
        known = self._client.assignment()
        with self._kafka_errors_as_ours():
            present = {
                TopicPartition(topic, partition)
                for topic in self._topics
                for partition in self._client.partitions_for_topic(topic) or ()
            }
            new = present - known
            if new:
                places = {place: self._client.position(place) for place in known}
                self._client.assign([*known, *new])
                for place, position in places.items():
                    self._client.seek(place, position)
                self._client.seek_to_beginning(*new)

    @contextmanager
    def _kafka_errors_as_ours(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as problem:
            raise TopicError(f"The topics at {self._servers} cannot be read: {problem!r}") from problem
