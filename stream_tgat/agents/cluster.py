"""What the agents ask the brokers outside of the stream: partitions, offsets, and the deletion of what is done with.

A client of its own, on the main event loop: Faust's consumer answers such questions only between two long polls.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaConnectionError
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from stream_tgat.brokers import TopicDescription, admin_client, describe_topics
from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka
from stream_tgat.transport import clients

_POLL_MS: Final = 500


class Cluster:
    """Brokers of the deployment; `start` before use, `stop` afterwards."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admin: AIOKafkaAdminClient
        self._consumer: AIOKafkaConsumer
        self._reading = asyncio.Lock()
        # aiokafka's admin client does not tell the ids of topics.
        self._describing: KafkaAdminClient | None = None

    async def start(self) -> None:
        """Connect."""
        # Made here and not before, since aiokafka's clients belong to the loop that runs.
        self._admin = clients.admin_client(self._kafka)
        self._consumer = clients.consumer(self._kafka, enable_auto_commit=False, auto_offset_reset="earliest")
        await self._admin.start()
        await self._consumer.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._admin.close()
        if self._describing is not None:
            await asyncio.to_thread(self._describing.close)

    async def describe(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        """How many partitions each of these topics has now, and which topic it is; TopicError if one is gone."""
        try:
            found = await asyncio.to_thread(self._describe, topics)
        except kafka_errors.KafkaError as problem:
            raise KafkaConnectionError(f"topics could not be described: {problem!r}") from problem
        for topic in topics:
            if topic not in found:
                raise TopicError(f"The topic {topic!r} is gone; create it with: faust -A stream_tgat topics create")
        return found

    def _describe(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        if self._describing is None:
            self._describing = admin_client(self._kafka)
        return describe_topics(self._describing, topics)

    async def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Offset that the next record will get, of each partition."""
        return _by_partition(await self._consumer.end_offsets(_of(topic, partitions)))

    async def read(self, topic: str, partition: int, first: int, end: int) -> list[Any]:
        """Records of a partition from offset `first` to before `end`, as many as compaction has left.

        Returns aiokafka's records once the position has reached the end. Of several reads one waits for the other.
        """
        place, found = TopicPartition(topic, partition), []
        async with self._reading:
            # What was read once stays assigned, and paused: each assignment is told in the log.
            if place not in self._consumer.assignment():
                self._consumer.assign([*self._consumer.assignment(), place])
            self._consumer.seek(place, first)
            self._consumer.resume(place)
            try:
                while await self._consumer.position(place) < end:
                    polled = await self._consumer.getmany(place, timeout_ms=_POLL_MS)
                    found += [record for record in polled.get(place, ()) if record.offset < end]
            finally:
                self._consumer.pause(place)
        return found

    async def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offset from which the group would go on, of each partition for which it has committed one."""
        offsets = await self._admin.list_consumer_group_offsets(group)
        return {tp.partition: at.offset for tp, at in offsets.items() if tp.topic == topic and at.offset >= 0}

    async def delete_below(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Let the brokers drop all records of `topic` below these offsets, partition by partition."""
        if offsets:
            await self._admin.delete_records(
                {
                    TopicPartition(topic, partition): RecordsToDelete(before_offset=offset)
                    for partition, offset in offsets.items()
                }
            )


def _of(topic: str, partitions: Collection[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions]


def _by_partition(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in offsets.items()}
