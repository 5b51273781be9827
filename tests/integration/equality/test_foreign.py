"""Orders on topics that others have designed: what comes out is what one pass over the same interactions gives."""

from __future__ import annotations

import tomllib
from contextlib import closing

import numpy as np
import orjson
from broker import Broker
from click.testing import CliRunner
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from stream_tgat.commands.topology import topology_command
from stream_tgat.topology import Topology
from stream_tgat.training.log_part import read_log
from tests.integration.equality.checks import assert_equal
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import START, Log, Record

PARTITIONS = 2
FEATURES = '[[features]]\nname = "price"\nkind = "number"\nlog1p = true\n'
INPUT = """
[input.interactions]
topics = ["{0}web", "{0}app"]
where = "type == 'order'"
each = "body.lines"
user = "body.customer.id"
item = "$each.sku"
timestamp = "body.at"
time_unit = "ms"

[input.interactions.fields]
price = "$each.price"
"""


def test_baskets_of_two_topics_are_computed_as_in_one_pass_through_kills(
    broker: Broker, topic_prefix: str, deployed: Deployed
) -> None:
    random = np.random.default_rng(3)
    topics = [f"{topic_prefix}{name}" for name in ("web", "app")]
    offsets = {(topic, partition): 0 for topic in topics for partition in range(PARTITIONS)}
    orders: list[tuple[str, int, bytes]] = []
    interactions: list[Record] = []
    for n in range(120):
        topic, partition = topics[int(random.integers(2))], int(random.integers(PARTITIONS))
        offset = offsets[topic, partition]
        offsets[topic, partition] += 1
        user, at = int(random.integers(9)), int(START * 1000) + 700 * n
        # An order may have the same article twice, and none at all.
        lines = [
            {"sku": f"sku-{random.integers(5)}", "price": round(float(random.gamma(2, 9)), 2)}
            for _ in range(int(random.integers(4)))
        ]
        kind = "order" if n % 7 else "refund"
        order = {"type": kind, "body": {"customer": {"id": user}, "at": at, "lines": lines}}
        orders.append((topic, partition, orjson.dumps(order)))
        if kind == "order":
            for index, line in enumerate(lines):
                content = {
                    "id": f"{topic}/{partition}/{offset:012d}/{index}", "user": user, "item": line["sku"],
                    "timestamp": at / 1000, "price": line["price"],
                }  # fmt: skip
                interactions.append(Record(partition, orjson.dumps(content)))
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        made = {topic: {"num_partitions": PARTITIONS, "replication_factor": 1} for topic in topics}
        admin.create_topics(made, wait_for_metadata=True)
    log = Log(tuple(interactions), PARTITIONS, FEATURES)
    deployment, oracle = deployed(log, Settings(more=INPUT.format(topic_prefix)))
    total = len(oracle.embeddings)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)) as producer:
        for part in (orders[:60], orders[60:]):
            for topic, partition, value in part:
                producer.send(topic, value=value, partition=partition)
            producer.flush()
            worker = deployment.start()
            if part[0] is orders[0]:
                deployment.wait_for(total // 4)
                worker.kill()
        mark = [("watermark", repr(START + 1e6).encode())]
        for topic, partition in offsets:
            producer.send(topic, key=b"", value=None, partition=partition, headers=mark)
        producer.flush()
        deployment.wait_for(total)
        deployment.stop()
        report = assert_equal(deployment, oracle)
        assert report.embeddings == total == 2 * len(interactions)
        read, manifest = read_log(deployment.topology)
        assert set(manifest) >= set(topics)
        names = {orjson.loads(record.value or b"")["id"] for record in interactions}
        assert {each.decode() for each in read.ids.tolist()} == names
        refunds = sum(b'"refund"' in value for _, _, value in orders)
        checked = CliRunner().invoke(topology_command(deployment.topology), ["check", "--sample", "500"])
        assert checked.exit_code == 0, checked.output
        taken = f"{124 - refunds} of 124 records are taken, {refunds} passed over, 0 would be dead letters."
        assert taken in checked.output, checked.output
        made = CliRunner().invoke(topology_command(deployment.topology), ["init", "--topic", topics[0]])
        assert made.exit_code == 0, made.output
        drafted = Topology.model_validate(tomllib.loads(made.stdout)).input.interactions
        assert (drafted.each, drafted.item, drafted.time_unit) == ("body.lines", "$each.sku", "ms")
