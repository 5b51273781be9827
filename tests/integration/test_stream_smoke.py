"""The worker as a user runs it: starts, says what is missing, refuses bad records, answers on its page, stops."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from broker import Broker, free_port
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.training.shape import model_config

REPOSITORY = Path(__file__).resolve().parents[2]
TOPOLOGY = """
name = "smoke"
[kafka]
topic_prefix = "{prefix}"
partitions = 2
[time]
clock = "wall"
[model]
neighbours = 3
candidates = 5
hidden = 8
time_dim = 4
[serving]
device = "cpu"
data_dir = "{folder}/unused"
[releases]
store = "{folder}/releases"
[[features]]
name = "amount"
kind = "number"
[[heads]]
name = "ban"
threshold = 0.001
"""


class Stream:
    """Topics of one deployment, and at most one worker."""

    def __init__(self, broker: Broker, prefix: str, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.file = folder / "topology.toml"
        self.file.write_text(TOPOLOGY.format(prefix=prefix, folder=folder))
        topology = load_topology(self.file)
        kafka = topology.kafka.model_copy(update={"bootstrap_servers": broker.bootstrap_servers})
        self.topology: Topology = topology.model_copy(update={"kafka": kafka})
        self.log_file = folder / "worker.log"
        self.worker: subprocess.Popen[bytes] | None = None

    def release(self) -> None:
        torch.manual_seed(0)
        model = Model(model_config(self.topology)).eval()
        card = new_card(self.topology, model.config)
        promote(self.topology, ReleaseStore(self.topology.releases.store).save(model, card))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "faust", "-A", "stream_tgat", "-D", str(self.folder / "data"), "-l", "info"]
        with self.log_file.open("ab") as log:
            self.worker = subprocess.Popen(
                [*command, "worker", *(options or ("--without-web",))],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "STREAM_TGAT_TOPOLOGY": str(self.file),
                    "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
                },
            )
        return self.worker

    def said(self) -> str:
        return self.log_file.read_text(errors="replace")

    def produce(self, *values: bytes) -> None:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers)
        for n, value in enumerate(values):
            producer.send(self.topology.topics.interactions, value=value, partition=n % 2)
        producer.flush()
        producer.close()

    def records(self, topic: str, count: int, timeout_s: float = 60.0) -> list[object]:
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers, enable_auto_commit=False)
        consumer.assign([TopicPartition(topic, p) for p in range(2)])
        consumer.seek_to_beginning()
        found: list[object] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records of {topic}:\n{self.said()[-3000:]}"
            assert self.worker is None or self.worker.poll() is None, self.said()[-3000:]
            for batch in consumer.poll(timeout_ms=200).values():
                found += batch
        consumer.close()
        return found

    def wait(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, self.said()[-3000:]
            time.sleep(0.1)


@pytest.fixture
def stream(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(broker, topic_prefix, tmp_path)
    yield made
    if made.worker is not None and made.worker.poll() is None:
        made.worker.kill()
        made.worker.wait()


def test_worker_without_topics_or_release_stops_at_once_and_says_how_to_make_them(stream: Stream) -> None:
    assert stream.start().wait(60) == 1
    assert "topics create" in stream.said()
    ensure_topics(stream.topology)
    assert stream.start().wait(60) == 1
    assert "release init" in stream.said()
    assert "Traceback" not in stream.said()


def test_interactions_become_embeddings_alerts_and_dead_letters(stream: Stream) -> None:
    ensure_topics(stream.topology)
    stream.release()
    now = time.time() - 100
    good = [
        {"user": f"a{n % 3}", "item": f"b{n % 2}", "timestamp": now + n, "amount": n}
        | ({"id": f"mine/{n}"} if n < 10 else {})
        for n in range(20)
    ]
    bad = [b"{", orjson.dumps({"user": "a", "item": "b", "timestamp": now, "amount": "much"}), b"\xff" * 10]
    port = free_port()
    worker = stream.start("--web-port", str(port))
    stream.produce(*map(orjson.dumps, good), *bad)

    topics = stream.topology.topics
    embedded: list[Any] = stream.records(topics.embeddings, 40)
    embeddings = [orjson.loads(record.value) for record in embedded]
    names = [f"mine/{n}" if n < 10 else f"{topics.interactions}/{n % 2}/{n // 2:012}" for n in range(20)]
    assert {(each["interaction"], each["kind"]) for each in embeddings} == {
        (name, kind) for name in names for kind in ("user", "item")
    }
    assert len({each["id"] for each in embeddings}) == 40
    assert f"mine/1/{good[1]['timestamp']!r}/a1/b1/0/{embeddings[0]['model']}" in {each["id"] for each in embeddings}
    assert all(len(each["embedding"]) == 8 for each in embeddings)
    # The threshold is next to nothing, so each user alerts, and the cooldown of a day lets it at most once.
    raised: list[Any] = stream.records(topics.alerts, 3)
    assert sorted(orjson.loads(record.value)["node"] for record in raised) == ["a0", "a1", "a2"]
    for record in [*embedded, *raised]:
        n, headers = names.index(orjson.loads(record.value)["interaction"]), dict(record.headers)
        assert (headers["source-partition"], headers["source-offset"]) == (b"%d" % (n % 2), b"%d" % (n // 2))
    letters = stream.records(topics.dead_letters, 3)
    assert {(record.value, dict(record.headers)["source-topic"]) for record in letters} == {  # type: ignore[attr-defined]
        (value, topics.interactions.encode()) for value in bad
    }

    def shown() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
            found: Counter[str] = Counter()
            for each in (sample for family in families for sample in family.samples):
                found[each.name.removeprefix("stream_tgat_").removesuffix("_total")] += each.value
            return found

    # The newest again, by the id that it was given, in the other partition: its row is kept, so it is known.
    stream.produce(orjson.dumps(good[19] | {"id": names[19]}))
    stream.wait(lambda: shown()["repeats"] == 1)
    assert (shown()["interactions"], shown()["half_edges"], shown()["embeddings"], shown()["alerts"]) == (21, 42, 40, 3)
    assert (shown()["dead_letters"], shown()["pending_rows"]) == (3, 0)
    # Each embedding was timed by when its record was written, a moment ago: none is unknown, none is of another time.
    assert (shown()["event_to_embedding_seconds_count"], shown()["lag_records"], shown()["ready"]) == (40, 0, 1)
    assert 0 < shown()["event_to_embedding_seconds_sum"] < 40 * 60

    worker.terminate()
    assert worker.wait(30) == 0, stream.said()[-3000:]
    assert (stream.folder / "data").is_dir()
    assert not (stream.folder / "unused").exists()


def test_head_that_is_added_joins_those_that_go_on(stream: Stream) -> None:
    ensure_topics(stream.topology)
    now = time.time() - 100
    events = [{"user": "ann", "item": f"b{n}", "timestamp": now + n, "amount": n} for n in range(8)]
    alerts: list[list[tuple[str, str]]] = []
    for added, begin, end in (("", 0, 4), ('[[heads]]\nname = "leave"\nthreshold = 0.001\n', 4, 8)):
        stream.file.write_text(stream.file.read_text() + added)
        stream.topology = stream.topology.model_copy(update={"heads": load_topology(stream.file).heads})
        stream.release()
        worker = stream.start()
        stream.produce(*map(orjson.dumps, events[begin:end]))
        embedded: list[Any] = stream.records(stream.topology.topics.embeddings, 2 * end)
        raised: list[Any] = stream.records(stream.topology.topics.alerts, 1 + len(alerts))
        alerts.append([(each["node"], each["head"]) for each in (orjson.loads(record.value) for record in raised)])
        worker.terminate()
        assert worker.wait(30) == 0, stream.said()[-3000:]
    users = [value for value in map(orjson.loads, (record.value for record in embedded)) if value["kind"] == "user"]
    assert sorted((value["model"], *sorted(value["predictions"])) for value in users) == [
        *[(0, "ban")] * 4,
        *[(1, "ban", "leave")] * 4,
    ]
    # The cooldown of the head that was there before goes on; the new one has none to wait for.
    assert alerts == [[("ann", "ban")], [("ann", "ban"), ("ann", "leave")]]


def test_live_event_passes_within_a_moment_though_other_partitions_are_silent(stream: Stream) -> None:
    ensure_topics(stream.topology)
    stream.release()
    stream.start()
    stream.wait(lambda: "Worker ready" in stream.said())
    for n in range(5):
        time.sleep(0.3)
        stream.produce(orjson.dumps({"user": "a", "item": "b", "timestamp": time.time(), "amount": n}))
    found = stream.records(stream.topology.topics.embeddings, 10)
    # All came although no other partition had an event: at their ends the clock goes on.
    assert not any(orjson.loads(record.value).get("late") for record in found)  # type: ignore[attr-defined]


def test_recreated_source_stops_the_worker_with_a_reason(stream: Stream) -> None:
    ensure_topics(stream.topology)
    stream.release()
    value = orjson.dumps({"user": "a", "item": "b", "timestamp": time.time() - 9, "amount": 1})
    worker = stream.start()
    stream.produce(*[value] * 10)
    stream.records(stream.topology.topics.embeddings, 20)
    admin = KafkaAdminClient(bootstrap_servers=stream.broker.bootstrap_servers)
    admin.delete_topics([stream.topology.topics.interactions])
    stream.wait(lambda: stream.topology.topics.interactions not in admin.list_topics())
    admin.close()
    ensure_topics(stream.topology)
    assert worker.wait(60) == 1
    # Whichever of them the worker meets first: another id under the name, no topic, or an end before what it has read.
    reasons = ("was deleted and created again", "is gone", "was truncated or made anew")
    assert any(reason in stream.said() for reason in reasons), stream.said()
