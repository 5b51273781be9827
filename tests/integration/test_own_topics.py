"""From a topic of others to answers, by command lines only: look, correct, check, train, serve, ask."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from broker import Broker, free_port
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from tests.registry import RunningRegistry

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
COUNT = 240
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
LINE = [{"name": "sku", "type": "string"}, {"name": "unit_price", "type": DECIMAL}]
ORDER = {
    "type": "record",
    "name": "OrderPlaced",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "customer", "type": {"type": "record", "name": "C", "fields": [{"name": "id", "type": "string"}]}},
        {"name": "status", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": LINE}}},
        {"name": "points", "type": ["null", "int"], "default": None},
    ],
}
#: What somebody adds who has looked at the draft.
CORRECTED = """
[kafka]
topic_prefix = "{prefix}"
partitions = 2
output_format = "{form}"
[training]
epochs = 1
"""


class CommandLine:
    """A terminal in a folder. environment: what its user has exported"""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "80", **environment}

    def run(self, line: str, status: int = 0) -> str:
        """What a command has written to both of its outputs."""
        done = subprocess.run(
            self._words(line), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{line}\n{done.stdout}"
        assert "Traceback" not in done.stdout
        return done.stdout

    @contextmanager
    def beside(self, line: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on meanwhile."""
        with (self.folder / f"{line.split(maxsplit=1)[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                self._words(line), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    def _words(self, line: str) -> list[str]:
        return [sys.executable, "-m", "faust", "-A", "stream_tgat", *line.split()]


def send(broker: Broker, topic: str, records: Iterator[tuple[str, bytes, list[tuple[str, bytes]]]]) -> None:
    """What the topic's owners write: (key, value, headers)."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)) as producer:
        for key, value, headers in records:
            producer.send(topic, key=key.encode(), value=value, headers=headers)
        producer.flush()


def visits() -> Iterator[tuple[int, str, str, datetime]]:
    """Customers who come back to the shelf that they like: (number, customer, wine, when)."""
    random = np.random.default_rng(7)
    start = datetime.now(UTC) - timedelta(days=10)
    for n in range(COUNT):
        customer = int(random.integers(20))
        wine = f"wine-{customer % 3 if random.random() < 0.9 else 0}-{random.integers(4)}"
        yield n, f"c-{customer}", wine, start + timedelta(minutes=50 * n)


def orders(registry: RunningRegistry, topic: str) -> Iterator[tuple[str, bytes, list[tuple[str, bytes]]]]:
    serializer = AvroSerializer(registry.client, json.dumps(ORDER))
    for n, customer, wine, at in visits():
        lines = [{"sku": wine, "unit_price": Decimal(500 + n) / 100}, {"sku": "wine-0-0", "unit_price": Decimal("9.5")}]
        order: dict[str, Any] = {"order_id": f"o-{n}", "placed_at": at, "customer": {"id": customer}}
        order |= {"status": "placed" if n % 20 else "cancelled", "lines": lines, "points": n % 5 if n % 2 else None}
        yield customer, serializer(order, SerializationContext(topic, MessageField.VALUE)), []


def views() -> Iterator[tuple[str, bytes, list[tuple[str, bytes]]]]:
    """CloudEvents in structured and in binary mode by turns."""
    for n, customer, wine, at in visits():
        kind = "com.vino.viewed" if n % 20 else "com.vino.pinged"
        attributes = {"specversion": "1.0", "id": f"v-{n}", "source": "/shop", "type": kind, "subject": wine}
        attributes["time"] = at.isoformat()
        data = {"customer": customer, "seconds": 1.5 * (n % 9)}
        if n % 2:
            value = orjson.dumps({**attributes, "datacontenttype": "application/json", "data": data})
            yield customer, value, [("content-type", b"application/cloudevents+json")]
        else:
            headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
            yield customer, orjson.dumps(data), [*headers, ("content-type", b"application/json")]


def answer(url: str, process: subprocess.Popen[bytes]) -> Any:
    """What the service says, once it can."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as said:
                return json.loads(said.read())
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline, f"{url} has no answer"
            time.sleep(0.2)


@pytest.mark.parametrize("kind", ["orders", "views"])
def test_topic_of_others_is_trained_on_served_and_asked_without_python(
    broker: Broker, registry: RunningRegistry, topic_prefix: str, tmp_path: Path, kind: str
) -> None:
    topic, is_avro = f"{topic_prefix}{kind}", kind == "orders"
    send(broker, topic, orders(registry, topic) if is_avro else views())
    addresses = {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "SCHEMA_REGISTRY_URL": registry.url}
    user = CommandLine(tmp_path, **addresses)
    user.run(f"topology init --topic {topic} --out shop.toml")
    drafted = (tmp_path / "shop.toml").read_text()
    corrected = drafted.replace("# where", "where").replace("[model]\n", "[model]\nhidden = 8\ntime_dim = 4\n")
    more = CORRECTED.format(prefix=f"{topic_prefix}out-", form="avro" if is_avro else "json")
    (tmp_path / "shop.toml").write_text(corrected + more)
    user.environment["STREAM_TGAT_TOPOLOGY"] = "shop.toml"
    user.run("topics create")
    checked = user.run("topology check --sample 100")
    (taken, passed_over, refused), *_ = re.findall(r"(\d+) of 100 records are taken, (\d+) passed over, (\d+)", checked)
    assert (int(taken) + int(passed_over), int(refused)) == (100, 0), checked
    assert (passed_over == "0") == is_avro
    said = user.run("train --promote-anyway")
    interactions = 2 * COUNT if is_avro else COUNT - COUNT // 20  # without what `where` does not want
    assert f"{interactions} interactions of " in said, said
    assert "Serves from now on, as version 0." in said
    port = free_port()
    with ExitStack() as running:
        worker = running.enter_context(user.beside("worker --without-web"))
        shown = user.run(f"tail embeddings --from-start --limit {2 * interactions} --json")
        found = [json.loads(line) for line in shown.splitlines()]
        assert {each["node"] for each in found if each["kind"] == "user"} == {f"c-{n}" for n in range(20)}
        assert {len(each["embedding"]) for each in found} == {8}
        assert worker.poll() is None
        service = running.enter_context(user.beside(f"serve --port {port}"))
        ann = answer(f"http://127.0.0.1:{port}/v1/nodes/user/c-4", service)
        of_ann = [each for each in found if each["node"] == "c-4"]
        assert (ann["id"], ann["interactions"], ann["last_seen"]) == ("c-4", len(of_ann), of_ann[-1]["timestamp"])
        near = answer(f"http://127.0.0.1:{port}/v1/nodes/user/c-4/neighbours?limit=3", service)
        assert len(near["neighbours"]) == 3
