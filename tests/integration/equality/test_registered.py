"""Avro with a registry, in and out: what comes out is what one pass over the same interactions gives."""

from __future__ import annotations

import json
import time
import tomllib
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from broker import Broker
from click.testing import CliRunner
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from stream_tgat.commands.topology import topology_command
from stream_tgat.topology import Topology, load_defaults
from stream_tgat.training.log_part import read_log
from tests.integration.equality.checks import assert_equal
from tests.integration.equality.scenarios import deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import START, Log, Record, random_log
from tests.registry import RunningRegistry

PARTITIONS = 2
FEATURES = '[[features]]\nname = "price"\nkind = "number"\nlog1p = true\n'
INPUT = """
[schema_registry]
url = "{url}"

[input.interactions]
topics = ["{topic}"]
format = "avro"
each = "lines"
user = "customer.id"
item = "$each.sku"
timestamp = "at"

[input.interactions.fields]
price = "$each.price"
"""
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": {"type": "record", "name": "C", "fields": [{"name": "id", "type": "long"}]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "price", "type": DECIMAL}],
                },
            },
        },
    ],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "shop", "type": "string", "default": "web"}]}


def test_orders_in_avro_are_computed_as_in_one_pass_also_when_the_registry_is_away(
    broker: Broker, registry: RunningRegistry, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, topic = np.random.default_rng(5), f"{topic_prefix}orders"
    old, new = (AvroSerializer(registry.client, json.dumps(schema)) for schema in (ORDER, NEWER))
    context = SerializationContext(topic, MessageField.VALUE)
    orders: list[tuple[int, bytes]] = []
    interactions: list[Record] = []
    offsets = [0] * PARTITIONS
    for n in range(80):
        partition = int(random.integers(PARTITIONS))
        at = datetime.fromtimestamp(int(START) + n, UTC)
        lines = [
            {"sku": f"sku-{random.integers(5)}", "price": Decimal(int(random.integers(100, 9000))) / 100}
            for _ in range(int(random.integers(1, 4)))
        ]
        user = int(random.integers(7))
        order: dict[str, Any] = {"customer": {"id": user}, "at": at, "lines": lines}
        orders.append((partition, old(order, context) if n < 60 else new({**order, "shop": "app"}, context)))
        for index, line in enumerate(lines):
            content = {
                "id": f"{topic}/{partition}/{offsets[partition]:012d}/{index}", "user": user, "item": line["sku"],
                "timestamp": at.timestamp(), "price": float(line["price"]),
            }  # fmt: skip
            interactions.append(Record(partition, orjson.dumps(content)))
        offsets[partition] += 1
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True)
    log = Log(tuple(interactions), PARTITIONS, FEATURES)
    given = Settings(more=INPUT.format(url=registry.url, topic=topic))
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, given)
    oracle.take(log.records)
    total = len(oracle.embeddings)
    with deployment, closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)) as producer:
        for partition, value in orders[:40]:
            producer.send(topic, value=value, partition=partition)
        producer.flush()
        with registry.hanging():
            worker = deployment.start()
            waited = time.monotonic() + 60
            while "does not answer (timed out): nothing that needs it is read" not in worker.said():
                assert time.monotonic() < waited, worker.said()
                time.sleep(0.2)
        deployment.wait_for(total // 4)
        worker.kill()
        for partition, value in orders[40:]:
            producer.send(topic, value=value, partition=partition)
        unknown = b"\0\x7f\xff\xff\xff\2"
        producer.send(topic, value=unknown, partition=0)
        mark = [("watermark", repr(START + 1e6).encode())]
        for partition in range(PARTITIONS):
            producer.send(topic, key=b"", value=None, partition=partition, headers=mark)
        producer.flush()
        deployment.start()
        deployment.wait_for(total)
        deployment.stop()
        oracle.dead_letters.add((0, offsets[0]))
        report = assert_equal(deployment, oracle)
        assert report.embeddings == total == 2 * len(interactions)
        read, _ = read_log(deployment.topology)
        names = {orjson.loads(record.value or b"")["id"] for record in interactions}
        assert {each.decode() for each in read.ids.tolist()} == names
        checked = CliRunner().invoke(topology_command(deployment.topology), ["check", "--sample", "500"])
        assert checked.exit_code == 1
        assert "schema 2147483647: the schema registry does not know it" in " ".join(checked.output.split())
        assert "82 of 83 records are taken" in checked.output
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
        made = CliRunner().invoke(topology_command(load_defaults()), ["init", "--topic", topic])
        assert made.exit_code == 0, made.output
        drafted = Topology.model_validate(tomllib.loads(made.stdout))
        found = drafted.input.interactions
        assert (found.format, found.each, found.user, found.timestamp) == ("avro", "lines", "customer.id", "at")
        assert drafted.schema_registry.url == registry.url


def test_outputs_in_avro_are_what_one_pass_gives_also_when_the_registry_is_away(
    broker: Broker, registry: RunningRegistry, topic_prefix: str, tmp_path: Path
) -> None:
    """A worker waits for the registry before it begins, and ends where that refuses a schema."""
    log = random_log(120, seed=3, users=9)
    settings = Settings(output_format="avro", more=f'[schema_registry]\nurl = "{registry.url}"')
    deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, settings)
    oracle.take(log.records)
    with deployment:
        deployment.produce(log.records)
        with registry.hanging():
            worker = deployment.start()
            deployment.wait_until_said(worker, "does not answer (timed out): nothing that needs it is read")
        deployment.wait_for(len(oracle.embeddings) // 3)
        worker.kill()
        deployment.start()
        deployment.wait_for(len(oracle.embeddings))
        deployment.stop()
        assert_equal(deployment, oracle)
        subject = f"{deployment.topology.topics.alerts}-value"
        other = Schema('{"type": "record", "name": "Alert", "namespace": "stream_tgat", "fields": []}', "AVRO")
        registry.client.set_compatibility(subject, "NONE")
        registry.client.delete_subject(subject)
        registry.client.register_schema(subject, other)
        registry.client.set_compatibility(subject, "FULL")
        refused = deployment.start()
        assert refused.wait_for_end() == 1
        assert f"does not take the schema of {subject}, which does not go with those before it" in refused.said()
        assert "Traceback" not in refused.said()
