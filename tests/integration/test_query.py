"""Real workers and a real service, asked over HTTP: exact, wherever a node's partition is, and while it moves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from broker import Broker, free_port
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

pytest.importorskip("fastapi", reason="the query service needs the extra `serve`")

from stream_tgat.client import LatestEmbedding, read_latest
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.engine import Engine, both_halves, single_pass
from stream_tgat.training.promotion import newest_loadable, promotions
from tests.integration.equality.received import records_of
from tests.integration.test_stream_smoke import REPOSITORY, Stream

pytestmark = pytest.mark.timeout(600)

USERS, ITEMS, COUNT = 9, 7, 120
PATIENCE_S = 240.0  # several processes that load torch, on whatever else the machine does
Names = list[tuple[str, str]]
NAMES: Names = [*(("user", f"a{n}") for n in range(USERS)), *(("item", f"b{n}") for n in range(ITEMS)), ("user", "new")]


class Shop(Stream):
    """A deployment with any number of workers, and a service."""

    def __init__(self, broker: Broker, prefix: str, folder: Path) -> None:
        super().__init__(broker, prefix, folder)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        data = ("-D", str(self.folder / name))
        environment = {"STREAM_TGAT_TOPOLOGY": str(self.file), "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", "stream_tgat", *data, "-l", "info", *arguments],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        self.processes.append(process)
        return process

    def said(self) -> str:
        return "\n".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log")))

    def wait(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        super().wait(condition, timeout_s)

    def serve(self) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.run("unused", "serve", "--port", str(port))
        self.wait(lambda: self.status("/livez") == 200)

    def get(self, path: str, body: Any = None) -> tuple[int, Any, Any]:
        """Status, content and headers."""
        content = None if body is None else orjson.dumps(body)
        asked = urllib.request.Request(self.address + path, content, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:
                return answer.status, orjson.loads(answer.read()), answer.headers
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, orjson.loads(refusal.read()), refusal.headers

    def status(self, path: str) -> int:
        try:
            return self.get(path)[0]
        except (urllib.error.URLError, ConnectionError):
            return 0


@pytest.fixture
def shop(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(broker, topic_prefix, tmp_path)
    ensure_topics(made.topology)
    made.release()
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def purchases(begin: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [
        {"id": f"p{n:03}", "user": f"a{user}", "item": f"b{item}", "timestamp": begin + n / 2, "amount": int(amount)}
        for n, (user, item, amount) in enumerate(
            zip(rng.integers(0, USERS, COUNT), rng.integers(0, ITEMS, COUNT), rng.integers(1, 50, COUNT), strict=True)
        )
    ]


def expected(shop: Shop, events: list[dict[str, Any]], at: float) -> dict[tuple[str, str], np.ndarray]:
    """The embedding of each node after all events, by one engine over the log in one pass."""
    topology = shop.topology
    serving, _ = newest_loadable(topology, promotions(topology))
    assert serving is not None
    engine = Engine(serving.model, serving.promotion.version, id_bytes=topology.id_bytes)
    edge, _ = topology.encoder.encode(events)
    halves = both_halves(
        np.array([topology.node_key("user", each["user"]) for each in events]),
        np.array([topology.node_key("item", each["item"]) for each in events]),
        np.array([each["id"].encode() for each in events]),
        np.array([each["timestamp"] for each in events]),
        edge,
    )
    single_pass(engine, halves, 32)
    keys = np.array([topology.node_key(kind, name) for kind, name in NAMES])
    return dict(zip(NAMES, engine.embed(0, keys, np.full(len(NAMES), at)), strict=True))


def path_of(kind: str, name: str, at: float) -> str:
    return f"/v1/nodes/{kind}/{urllib.parse.quote(name, safe='')}?time={at!r}"


def test_answers_are_those_of_the_single_pass_also_while_a_partition_moves(shop: Shop) -> None:
    events, at = purchases(time.time() - 90), time.time()
    exact = expected(shop, events, at)
    shop.run("first", "worker", "--without-web")
    shop.produce(*map(orjson.dumps, events))
    shop.records(shop.topology.topics.embeddings, 2 * COUNT, PATIENCE_S)
    shop.serve()
    shop.wait(lambda: shop.status("/readyz") == 200)

    def look() -> Counter[int]:
        """Ask for every node; whatever is answered is exact."""
        found: Counter[int] = Counter()
        for (kind, name), embedding in exact.items():
            status, told, headers = shop.get(path_of(kind, name, at))
            found[status] += 1
            if status == 200:
                assert told["known"] == (name != "new")
                assert told["complete"], told
                np.testing.assert_allclose(told["embedding"], embedding, atol=1e-5)
            else:
                assert status == 503, told
                assert headers["Retry-After"] == "1"
        return found

    everywhere = Counter({200: len(NAMES)})
    assert look() == everywhere

    # A second worker takes one of the two partitions, and gives it back when it is killed.
    second = shop.run("second", "worker", "--without-web")
    seen: Counter[int] = Counter()

    def have_both() -> bool:
        seen.update(look())
        return "Worker ready" in (shop.folder / "second.log").read_text(errors="replace")

    shop.wait(have_both)
    shop.wait(lambda: shop.status("/readyz") == 200)
    assert look() == everywhere
    second.kill()
    shop.wait(lambda: look() == everywhere)
    assert set(seen) <= {200, 503}

    status, told, _ = shop.get(
        "/v1/embeddings", {"nodes": [{"kind": kind, "id": name, "time": at} for kind, name in NAMES]}
    )
    assert status == 200
    for each, embedding in zip(told["embeddings"], exact.values(), strict=True):
        np.testing.assert_allclose(each["embedding"], embedding, atol=1e-5)
    status, told, _ = shop.get(path_of("user", "a1", at).replace("?", "/neighbours?"))
    met = [each for each in events if each["user"] == "a1"][::-1][: shop.topology.model.candidates]
    assert [(each["interaction"], each["peer"], each["features"]) for each in told["neighbours"]][: len(met)] == [
        (each["id"], each["item"], {"amount": each["amount"]}) for each in met
    ][: len(told["neighbours"])]
    assert shop.get("/v1/model")[1]["version"] == told["model"]


def test_trace_of_a_record_goes_to_all_that_comes_of_it_and_to_nothing_else(shop: Shop) -> None:
    """Two workers, so that traces travel between them; records with and without one in the same batches."""
    for name in ("first", "second"):
        shop.run(name, "worker", "--without-web")
    events = purchases(time.time() - 90)
    traces = {
        each["id"]: b"00-%032x-%016x-01" % (n + 1, n + 1) for n, each in enumerate(events) if int(each["id"][1:]) % 3
    }
    with closing(KafkaProducer(bootstrap_servers=shop.broker.bootstrap_servers, linger_ms=50)) as producer:
        for n, each in enumerate(events):
            parent = traces.get(each["id"])
            headers = [] if parent is None else [("traceparent", parent), ("tracestate", b"shop=" + parent)]
            producer.send(shop.topology.topics.interactions, orjson.dumps(each), headers=headers, partition=n % 2)
        producer.flush()
    topics = shop.topology.topics
    found = [
        (orjson.loads(record.value)["interaction"], *map(dict(record.headers).get, ("traceparent", "tracestate")))
        for topic, count in ((topics.embeddings, 2 * COUNT), (topics.alerts, 1))
        for record in shop.records(topic, count, PATIENCE_S)
    ]
    assert len(found) > 2 * COUNT
    states = {name: b"shop=" + parent for name, parent in traces.items()}
    assert Counter(found) == Counter((name, traces.get(name), states.get(name)) for name, *_ in found)


def test_worker_keeps_a_service_beside_it_that_ends_with_it(shop: Shop) -> None:
    port = free_port()
    shop.file.write_text(shop.file.read_text() + f"[query]\nport = {port}\n")
    shop.address = f"http://127.0.0.1:{port}"
    worker = shop.run("only", "worker", "--without-web", "--with-query")
    shop.wait(lambda: shop.status("/readyz") == 200)
    now = time.time()
    shop.produce(orjson.dumps({"user": "ann", "item": "tea", "timestamp": now, "amount": 3}))
    # Asked with no time, the newest interaction is in it.
    shop.wait(lambda: shop.get("/v1/nodes/user/ann")[1]["interactions"] == 1)
    told = shop.get("/v1/nodes/user/ann")[1]
    assert told["last_seen"] == now
    assert told["time"] > now
    assert 0 < told["predictions"]["ban"]["probability"] < 1
    worker.terminate()
    assert worker.wait(60) == 0, shop.said()[-3000:]
    shop.wait(lambda: shop.status("/livez") == 0)


def test_service_that_starts_knows_all_nodes_from_topic_latest_though_embeddings_are_gone(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace("[serving]\n", "[serving]\nlatest = true\n"))
    serving = shop.topology.serving.model_copy(update={"latest": True})
    shop.topology = shop.topology.model_copy(update={"serving": serving})
    ensure_topics(shop.topology)
    shop.run("only", "worker", "--without-web")
    shop.produce(*map(orjson.dumps, purchases(time.time() - 90)))
    topics = shop.topology.topics
    shop.records(topics.embeddings, 2 * COUNT, PATIENCE_S)

    def newest() -> dict[bytes, LatestEmbedding]:
        of_partitions = records_of(shop.broker.bootstrap_servers, topics.latest).values()
        records = [record for records in of_partitions for record in records]
        return {record.key: node for record, node in zip(records, read_latest(records), strict=True)}

    shop.wait(lambda: len(newest()) == USERS + ITEMS and all(node.complete for node in newest().values()))
    with closing(KafkaAdminClient(bootstrap_servers=shop.broker.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(topics.embeddings, partition): -1 for partition in range(2)})
    shop.serve()
    shop.wait(lambda: shop.get("/v1/nodes/item/b1/similar")[0] == 200)
    shop.wait(lambda: shop.get("/v1/nodes/item/b1/similar")[1]["searched"] == ITEMS)
    # What the topic says of a node is what a worker says of it just then.
    for node in newest().values():
        assert node.kind is not None
        _, told, _ = shop.get(path_of(node.kind, node.node, float(np.nextafter(node.timestamp, np.inf))))
        assert (told["interactions"], told["last_seen"]) == (node.interactions, node.timestamp)
        np.testing.assert_allclose(told["embedding"], node.embedding, atol=1e-5)
        said = {head: each["probability"] for head, each in told["predictions"].items()}
        assert said == pytest.approx(node.predictions, abs=1e-6)
