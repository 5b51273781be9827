"""Three brokers and three copies of everything: one broker may die at any moment."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import LeaderNotAvailableError

from stream_tgat.brokers import consumer
from stream_tgat.commands.topics import topic_specs
from stream_tgat.topology import Topology
from tests.integration.equality.checks import assert_equal
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log

EVENTS = 200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as running:
        yield running
    _close_what_was_refused()


# The brokers are as heavy as the one that all other tests share.
@pytest.mark.xdist_group("broker")
@pytest.mark.broker
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_broker_that_dies_takes_nothing_with_it(cluster: Cluster, topic_prefix: str, tmp_path: Path) -> None:
    log = random_log(EVENTS, seed=31)
    half = len(log.records) // 2
    settings = Settings(replication_factor=3)
    deployment, oracle = deploy(cluster.bootstrap_servers, tmp_path, topic_prefix, log, settings)
    oracle.take(log.records)
    with deployment:
        _assert_safe(deployment.topology)
        led = _each_led_by_one(cluster, f"{topic_prefix}led")
        deployment.produce(log.records[:half])
        deployment.start("a")
        deployment.wait_for(EVENTS // 2)
        cluster.brokers[0].kill()
        deployment.produce(log.records[half:])
        deployment.wait_for(len(oracle.embeddings))
        deployment.stop()
        assert_equal(deployment, oracle)
        _check_offsets_without_leader(deployment.topology, led)


def _each_led_by_one(cluster: Cluster, name: str) -> list[TopicPartition]:
    """A topic with a partition for each broker, which has no other copy."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    ids = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
    admin.create_topics([NewTopic(name, replica_assignments={n: [node] for n, node in enumerate(ids)})])
    admin.close()
    return [TopicPartition(name, partition) for partition in range(len(ids))]


def _check_offsets_without_leader(topology: Topology, places: list[TopicPartition]) -> None:
    client = consumer(topology.kafka, group_id=None)
    gone, *others = places
    assert client.end_offsets(others) == dict.fromkeys(others, 0)
    with pytest.raises(LeaderNotAvailableError, match=f"no broker leads {gone.topic}/{gone.partition}$"):
        client.end_offsets(places, timeout_ms=1500)
    client.close()


def _close_what_was_refused() -> None:
    """kafka-python leaves the sockets of connections that were refused to the garbage collector, of a later test."""
    # By type: asking a dead proxy for its class raises.
    for each in gc.get_objects():
        if type(each) is socket.socket and each.fileno() >= 0 and each.getsockname()[:1] == ("0.0.0.0",):
            each.close()


def _assert_safe(topology: Topology) -> None:
    """What is acknowledged is on two brokers at least, whatever the topic."""
    names = [spec.name for spec in topic_specs(topology)]
    assert topology.changelog in names
    admin = KafkaAdminClient(bootstrap_servers=topology.kafka.bootstrap_servers)
    try:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])["topic"]
    finally:
        admin.close()
    assert {name: found[name]["min.insync.replicas"]["value"] for name in names} == dict.fromkeys(names, "2")
