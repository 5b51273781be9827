"""How long a lonely record takes, and how far the group has read."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.integration.transport.cluster import Cluster, Worker, wait_until


def _times(cluster: Cluster, name: str) -> dict[bytes, int]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    tps = [TopicPartition(cluster.prefix + name, partition) for partition in range(cluster.partitions)]
    consumer.assign(tps)
    ends = consumer.end_offsets(tps)
    found = {}
    while any(consumer.position(tp) < ends[tp] for tp in tps):
        for records in consumer.poll(timeout_ms=200).values():
            found |= {record.value: record.timestamp for record in records}
    consumer.close()
    return found


def _reports(worker: Worker) -> list[Any]:
    return [json.loads(found) for found in re.findall(r"COMMITTED (\{.*\})", worker.text())]


def test_record_at_a_low_rate_is_processed_at_once_and_the_groups_place_is_known(cluster: Cluster) -> None:
    """Stock Faust has the broker hold a fetch back for up to 1.5 s."""
    worker = cluster.start("a", REPORT_COMMITTED="1")
    worker.wait_for("Worker ready")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    count = 40
    for number in range(count):
        producer.send(cluster.prefix + "numbers", b"%d" % number, partition=number % 4)
        producer.flush()
        time.sleep(0.08)
    producer.close()
    wait_until(lambda: len(_times(cluster, "outputs")) == count, 10, worker.text)
    sent, done = _times(cluster, "numbers"), _times(cluster, "outputs")
    delays = sorted(done[value] - sent[value] for value in sent)
    assert delays[count // 2] < 300, delays
    wait_until(lambda: _reports(worker)[-1]["committed"] == dict.fromkeys("0123", 10), 10, worker.text)
    took_s = sorted(report["took_s"] for report in _reports(worker))
    assert took_s[len(took_s) // 2] < 0.7
    assert worker.terminate() == 0


def test_stock_agents_and_typed_topics_run_on_this_application(cluster: Cluster) -> None:
    """What does not drain its stream goes Faust's own way, with the same consumer."""
    worker = cluster.start("a", "forwarding_app")
    worker.wait_for("Worker ready")
    cluster.produce("numbers", 0, 400)
    wait_until(lambda: len(cluster.values("outputs")) == 400, 20, worker.text, every_s=0.3)
    assert worker.terminate() == 0
    assert sum(cluster.values("outputs").values()) == 400
    again = cluster.start("a", "forwarding_app")
    again.wait_for("Worker ready")
    cluster.produce("numbers", 400, 440)
    wait_until(lambda: len(cluster.values("outputs")) == 440, 20, again.text, every_s=0.3)
    assert again.terminate() == 0
    assert sum(cluster.values("outputs").values()) == 440, "what was acknowledged came again"
