"""Sending and asking the broker, without a worker: one batch per commit, named partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from stream_tgat.errors import BatchTooLargeError
from stream_tgat.transport import Application, Delivery, OutgoingRecord
from stream_tgat.transport.changelog import Changelog
from tests.integration.transport.cluster import Cluster


def _run(cluster: Cluster, scenario: Callable[[Application], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        app = Application(cluster.prefix + "sender", broker="kafka://" + cluster.bootstrap_servers)
        await app.producer.start()
        try:
            return await scenario(app)
        finally:
            await app.producer.stop()

    return asyncio.run(main())


def _read(cluster: Cluster, name: str, partition: int, count: int) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(cluster.prefix + name, partition)])
    found: list[Any] = []
    while len(found) < count:
        for records in consumer.poll(timeout_ms=2000).values():
            found += records
    consumer.close()
    return found


def test_records_arrive_in_order_in_the_partition_that_was_named(cluster: Cluster) -> None:
    """Faust's `topic.send(partition=)` goes where the key points."""
    records = [
        OutgoingRecord(b"same key", b"%d" % number, [("number", b"%d" % number)], 1000 + number) for number in range(50)
    ]

    async def scenario(app: Application) -> list[int]:
        topic = cluster.prefix + "outputs"
        app.outbox.batch_bytes = 500
        return await app.outbox.deliver(
            [Delivery(topic, 3, records), Delivery(topic, 1, records[:1]), Delivery(topic, 1, ())]
        )

    assert _run(cluster, scenario) == [49, 0, -1]
    found = _read(cluster, "outputs", 3, 50)
    assert [(r.key, r.value, r.headers, r.timestamp) for r in found] == [
        (r.key, r.value, list(r.headers), r.timestamp_ms) for r in records
    ]
    assert cluster.ends("outputs") == {0: 0, 1: 1, 2: 0, 3: 50}


def test_commit_of_many_megabytes_is_one_record_batch(cluster: Cluster) -> None:
    cluster.create("log", **{"max.message.bytes": str(9 * 2**20)})
    changes = [(b"%d" % number, bytes(6000)) for number in range(1200)] + [(b"gone", None)]

    async def scenario(app: Application) -> list[Any]:
        changelog = Changelog(app, cluster.prefix + "log", 8 * 2**20)
        changelog.resume(2, 0)
        last = await changelog.append({2: changes})
        with pytest.raises(BatchTooLargeError):
            await changelog.append({2: changes + changes})
        return [last, await changelog.append({2: changes[:1]})]

    assert _run(cluster, scenario) == [{2: 1200}, {2: 1201}]
    found = _read(cluster, "log", 2, 1201)
    assert [(r.key, r.value) for r in found[:1201]] == changes


def test_record_above_the_limit_is_refused_with_its_size(cluster: Cluster) -> None:
    async def scenario(app: Application) -> None:
        await app.outbox.deliver([Delivery(cluster.prefix + "outputs", 0, [OutgoingRecord(None, bytes(17 * 2**20))])])

    with pytest.raises(BatchTooLargeError, match="a record of 17825792 bytes"):
        _run(cluster, scenario)


@pytest.mark.parametrize("sends", ["outputs", "changelog"])
def test_batch_that_the_topic_does_not_take_is_told_with_sizes_and_the_way_on(cluster: Cluster, sends: str) -> None:
    """aiokafka says MessageSizeTooLargeError, and neither of what, nor how large, nor what the limit is."""
    cluster.create("small", **{"max.message.bytes": "3000"})
    records = [OutgoingRecord(b"key", bytes(100)) for _ in range(40)]
    topic = cluster.prefix + "small"

    async def scenario(app: Application) -> None:
        if sends == "outputs":
            app.outbox.batch_bytes = 2000
            assert await app.outbox.deliver([Delivery(topic, 1, records[:20])]) == [19]
            app.outbox.batch_bytes = 4000
            await app.outbox.deliver([Delivery(topic, 1, records)])
        changelog = Changelog(app, topic, 8 * 2**20)
        changelog.resume(1, 0)
        await changelog.append({1: [(record.key or b"", record.value) for record in records]})

    what = r"small/1 does not take a batch of (3|4)\d{3} bytes \(\d\d records\): max.message.bytes .* is 3000\."
    with pytest.raises(BatchTooLargeError, match=f"{what}.*topics create.*nothing is lost"):
        _run(cluster, scenario)
