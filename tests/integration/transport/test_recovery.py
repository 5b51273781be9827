"""What a worker starts from: its tables, whatever their changelogs end in, and the offset that they hold."""

from __future__ import annotations

import asyncio
import re

from aiokafka import AIOKafkaProducer

from tests.integration.transport.cluster import Cluster, wait_until

CHANGELOG = "counter-counts-changelog"


async def _transactions(cluster: Cluster, topic: str, values: list[bytes], *, abort: bool = False) -> None:
    """Send values in one transaction, which leaves a control record behind them in each partition."""
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"{cluster.prefix}{topic}{values}"
    )
    await producer.start()
    await producer.begin_transaction()
    for partition in range(cluster.partitions):
        for value in values:
            await producer.send(cluster.prefix + topic, value, key=b"key" + value, partition=partition)
    await (producer.abort_transaction() if abort else producer.commit_transaction())
    await producer.stop()


def test_holes_and_control_records_in_a_source_are_passed_and_its_end_is_seen(cluster: Cluster) -> None:
    """Aborted and committed transactions, and control records at the end."""
    cluster.produce("numbers", 0, 40)
    asyncio.run(_transactions(cluster, "numbers", [b"committed"]))
    cluster.produce("numbers", 100, 140)
    asyncio.run(_transactions(cluster, "numbers", [b"aborted"], abort=True))
    worker = cluster.start("a", HOLES="allowed")
    # 20 numbers and 1 of a transaction in each partition; what was taken back does not count.
    worker.wait_for("AT END {0: 21, 1: 21, 2: 21, 3: 21}")
    assert worker.terminate() == 0
    assert cluster.counted() == 84


def test_changelog_that_ends_in_a_control_record_does_not_keep_recovery_waiting(cluster: Cluster) -> None:
    """Stock Faust waits for a record at the last offset, which never comes."""
    cluster.create(CHANGELOG, **{"cleanup.policy": "compact"})
    asyncio.run(_transactions(cluster, CHANGELOG, [b"1", b"2"]))
    cluster.produce("numbers", 0, 40)
    worker = cluster.start("a")
    worker.wait_for("AT END", 15)
    assert worker.terminate() == 0
    assert cluster.counted() == 40
    assert all(state[b"key1"] == b"1" for state in cluster.state().values())


def test_reading_starts_at_the_offset_in_the_table_not_at_the_groups(cluster: Cluster) -> None:
    cluster.produce("numbers", 0, 400)
    first = cluster.start("a")
    first.wait_for("AT END {0: 100, 1: 100, 2: 100, 3: 100}")
    assert first.terminate() == 0
    cluster.produce("numbers", 400, 800)
    cluster.commit("counter", "numbers", {0: 20, 1: 20, 2: 150, 3: 150})
    second = cluster.start("a")
    second.wait_for("AT END {0: 200, 1: 200, 2: 200, 3: 200}")
    assert second.terminate() == 0
    assert cluster.counted() == 800


def test_topic_that_lost_what_was_counted_stops_the_worker_with_a_reason(cluster: Cluster) -> None:
    cluster.produce("numbers", 0, 40)
    worker = cluster.start("a")
    worker.wait_for("AT END")
    assert worker.terminate() == 0
    cluster.delete("numbers")
    wait_until(lambda: cluster.recreate("numbers"), 20)
    again = cluster.start("a")
    assert again.process.wait(30) not in (0, -9)
    assert "numbers/0 ends at offset 0, but offset 10 is the next to read" in again.text()


def test_state_is_restored_from_the_changelog_in_bulk(cluster: Cluster) -> None:
    """A worker with an empty disk applies whole fetches: far fewer writes than records."""
    count = 20_000
    cluster.produce("numbers", 0, count)
    first = cluster.start("a")
    first.wait_for("AT END")
    assert first.terminate() == 0
    other = cluster.start("b", LOG_WRITES="1")
    other.wait_for("AT END {0: 5000, 1: 5000, 2: 5000, 3: 5000}")
    assert other.terminate() == 0
    writes = [int(count) for count in re.findall(r"APPLIED (\d+)", other.text())]
    assert sum(writes) >= count
    assert len(writes) < sum(writes) / 50
    assert cluster.counted() == count
