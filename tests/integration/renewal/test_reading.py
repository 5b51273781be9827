"""The log is read to its end, however its partitions lie in time and however little may wait for the slowest."""

from __future__ import annotations

from contextlib import closing

import orjson
import pytest
from broker import Broker
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.errors import TopicError
from stream_tgat.renewal.reencoding import owed, reencode
from stream_tgat.renewal.source_log import SourceLog
from stream_tgat.topology import Kafka, Topology
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.wire.packets import Source, SourceTopic

PARTITIONS = 4
COUNT = 6_000


def test_partitions_that_are_far_ahead_wait_and_go_on(broker: Broker, topic_prefix: str, tmp_path: object) -> None:
    topology = Topology.model_validate(
        {
            "name": "reading",
            "kafka": Kafka(
                bootstrap_servers=broker.bootstrap_servers, topic_prefix=topic_prefix, partitions=PARTITIONS
            ),
            "time": {"clock": "event"},
            "model": {"layers": 2, "neighbours": 3, "candidates": 3, "hidden": 4, "time_dim": 4},
            "features": [{"name": "v", "kind": "vector", "size": 150}],
            "serving": {"max_pending": 400, "data_dir": f"{tmp_path}/data"},
            "releases": {"store": f"{tmp_path}/releases"},
        }
    )
    ensure_topics(topology)
    for seed in (0, 1):
        model = untrained(topology, seed)
        release = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=seed))
        promote(topology, release)
    topic = topology.topics.interactions
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50)
    for n in range(COUNT):
        # The first partition has as much as all others together; each is larger than what is fetched at once.
        partition = 0 if n % 2 else 1 + n // 2 % (PARTITIONS - 1)
        value = {"user": f"u{n % 50}", "item": f"i{n % 70}", "timestamp": 1.5e9 + n, "v": [n + 0.123456789] * 150}
        producer.send(topic, key=b"", value=orjson.dumps(value), partition=partition)
    for partition in range(PARTITIONS):
        end = repr(1.5e9 + COUNT).encode()
        producer.send(topic, key=b"", value=None, headers=[("watermark", end)], partition=partition)
    producer.close()
    ready = owed(topology)
    assert ready is not None
    done = reencode(topology, ready, peer_embeddings_per_s=1e9)
    assert done.interactions == COUNT
    # Every node has had enough, and keeps the newest three rows; at least so many peer embeddings were made.
    assert done.peer_embeddings >= 3 * (50 + 70)
    assert done.inexact == 0

    # Retention cuts the log: what is left is used, and it is said of all that comes of it.
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.delete_records({TopicPartition(topic, 1): 100})
    admin.close()
    model = untrained(topology, 2)
    release = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=2))
    promote(topology, release)
    ready = owed(topology)
    assert ready is not None
    done = reencode(topology, ready, peer_embeddings_per_s=1e9)
    assert done.interactions == COUNT - 100
    assert done.inexact == done.peer_embeddings > 0
    assert owed(topology) is None


def test_records_deleted_while_the_log_is_read_are_an_error(topology: Topology) -> None:
    ensure_topics(topology)
    topic, partitions = topology.topics.interactions, range(PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers)
    sent = [producer.send(topic, value=b"{}", partition=0) for _ in range(9)]
    for each in sent:
        each.get(20)
    producer.close()
    everything = {Source(SourceTopic.INTERACTIONS, partition) for partition in partitions}
    with closing(SourceLog(topology)) as log:
        read = 0
        while read < 5:
            batch, _ = log.poll(everything, 5 - read)
            read += sum(map(len, batch.values()))
        # Seeks anew, and so forgets what it has fetched already.
        log.poll(set(), 1)
        admin = KafkaAdminClient(bootstrap_servers=topology.kafka.bootstrap_servers)
        admin.delete_records({TopicPartition(topic, 0): 8})
        admin.close()
        with pytest.raises(TopicError, match=f"{topic}/0: offset 5 passed its retention before it was read"):
            _ = [log.poll(everything, 100) for _ in range(20)]
