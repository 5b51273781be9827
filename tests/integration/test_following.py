"""The service reads along what a real broker has, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest
from kafka import KafkaProducer
from kafka.admin import NewPartitions

from stream_tgat.brokers import admin_client
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.query import following as followed_by
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.following import Following
from stream_tgat.query.watching.memory import Memory
from stream_tgat.topology import Topology
from stream_tgat.wire import EmbeddingEncoder, output_headers


def test_partition_that_is_added_is_read_from_its_beginning(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_by, "_PARTITIONS_MS", 300)
    ensure_topics(topology)
    topic, catalog, memory = topology.topics.embeddings, Catalog(), Memory(topology)
    following = Following(topology, catalog, memory)
    following.start()
    try:
        _produce(topology, 0, "tea")
        _until(lambda: catalog.items.popular(10) == ["tea"])
        with closing(admin_client(topology.kafka)) as admin:
            admin.create_partitions({topic: NewPartitions(total_count=topology.kafka.partitions + 1)})
        _produce(topology, topology.kafka.partitions, "kettle")
        _until(lambda: sorted(catalog.items.popular(10)) == ["kettle", "tea"])
    finally:
        following.stop()


def _produce(topology: Topology, partition: int, item: str) -> None:
    key, value = EmbeddingEncoder(topology).encode(
        interaction=b"x",
        node=f"i{item}".encode(),
        peer=b"uann",
        side=1,
        timestamp=1.0,
        embedding=np.ones(3, np.float32),
        predictions=np.zeros(0, np.float32),
        model=3,
        late=False,
    )
    headers = output_headers(topology, 3, topology.topics.interactions, 0, 1)
    with closing(KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers, retries=50)) as producer:
        producer.send(topology.topics.embeddings, key=key, value=value, headers=headers, partition=partition).get(30)


def _until(condition: Callable[[], bool], patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
