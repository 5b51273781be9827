"""Questions to a real broker: partitions, offsets, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker import Broker
from kafka.admin import KafkaAdminClient, NewTopic

from stream_tgat.agents.cluster import Cluster
from stream_tgat.errors import TopicError
from stream_tgat.topology import Kafka


def _ask(broker: Broker, question: Callable[[Cluster], Awaitable[object]]) -> object:
    async def run() -> object:
        cluster = Cluster(Kafka(bootstrap_servers=broker.bootstrap_servers))
        await cluster.start()
        try:
            return await question(cluster)
        finally:
            await cluster.stop()

    return asyncio.run(run())


@pytest.fixture
def topic(broker: Broker, topic_prefix: str) -> str:
    name = f"{topic_prefix}asked"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(name, 3, 1)])
    admin.close()

    async def fill() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        for _ in range(5):
            await producer.send_and_wait(name, b"x", partition=1)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id=f"{topic_prefix}group", enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([TopicPartition(name, 1)])
        await consumer.commit({TopicPartition(name, 1): 4})
        await consumer.stop()

    asyncio.run(fill())
    return name


async def _oldest(broker: Broker, topic: str) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    await consumer.start()
    offsets = await consumer.beginning_offsets([TopicPartition(topic, 1)])
    await consumer.stop()
    return int(offsets[TopicPartition(topic, 1)])


def test_offsets_and_partitions_are_those_of_the_broker(broker: Broker, topic: str, topic_prefix: str) -> None:
    async def question(cluster: Cluster) -> tuple[object, ...]:
        await cluster.delete_below(topic, {1: 2})
        return (
            (await cluster.describe([topic]))[topic].partitions,
            await cluster.ends(topic, [0, 1, 2]),
            await cluster.committed(f"{topic_prefix}group", topic),
            await _oldest(broker, topic),
        )

    assert _ask(broker, question) == (3, {0: 0, 1: 5, 2: 0}, {1: 4}, 2)


def test_topic_that_is_not_there_is_an_error_that_says_how_to_make_it(broker: Broker, topic_prefix: str) -> None:
    with pytest.raises(TopicError, match="topics create"):
        _ask(broker, lambda cluster: cluster.describe([f"{topic_prefix}absent"]))


def test_part_of_a_partition_is_read_as_often_as_asked_without_what_is_gone(broker: Broker, topic: str) -> None:
    async def question(cluster: Cluster) -> list[list[int]]:
        first = await cluster.read(topic, 1, 1, 3)
        await cluster.delete_below(topic, {1: 2})
        again = await cluster.read(topic, 1, 0, 5)
        # Other questions go on in between.
        await cluster.ends(topic, [0, 1, 2])
        last = await cluster.read(topic, 1, 4, 5)
        return [[record.offset for record in records] for records in (first, again, last)]

    assert _ask(broker, question) == [[1, 2], [2, 3, 4], [4]]
