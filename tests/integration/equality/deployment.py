"""A deployment of its own on the suite's broker: topics, a release, workers that are started, stopped and killed.

Everything goes the way a user's own would: a topology file, records produced with a Kafka client, `faust worker`
processes, outputs consumed by a client that drops repeats by their id.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.nn.model import Model
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from stream_tgat.wire import OutputValues
from tests.integration.equality.nursery import Forked, Process
from tests.integration.equality.received import Outputs
from tests.integration.equality.settings import HEADS, Settings, write_topology
from tests.integration.equality.streams import Log, Record
from tests.integration.equality.workers import REPOSITORY, Spawned, Worker


class Deployment:
    """Topics, release and workers of one test; leaves no process behind."""

    def __init__(
        self,
        servers: str,
        folder: Path,
        prefix: str,
        log: Log,
        settings: Settings | None = None,
        thresholds: dict[str, float] | None = None,
    ) -> None:
        self.servers, self.folder, self.prefix, self.log = servers, folder, prefix, log
        self.settings = settings or Settings()
        self.outputs = Outputs()
        self.workers: list[Worker] = []
        self.topology = write_topology(
            self.topology_file,
            log,
            self.settings,
            thresholds or dict.fromkeys(HEADS, 0.5),
            prefix=prefix,
            servers=servers,
        )
        self.values = OutputValues(self.topology)
        torch.manual_seed(self.settings.version_seed)
        self.model = Model(model_config(self.topology)).eval()
        self.version = -1
        self._offsets: dict[int, int] = {}
        self._consumer: KafkaConsumer | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._producer: KafkaProducer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if worker.running:
                worker.kill()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self.reconnect()

    def reconnect(self) -> None:
        """Close the clients; new ones are made when they are needed, which know of partitions that are new."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        if self._consumer is not None:
            self._positions = {tp: self._consumer.position(tp) for tp in self._consumer.assignment()}
            self._consumer.close()
            self._consumer = None

    @property
    def topology_file(self) -> Path:
        """What STREAM_TGAT_TOPOLOGY names."""
        return self.folder / "topology.toml"

    def prepare(self) -> None:
        """Create the topics, promote a release, produce the node features."""
        ensure_topics(self.topology)
        self.version = self.promote()
        for key, value in self.log.nodes:
            self.producer.send(self.topology.topics.nodes, key=key, value=value)
        self.producer.flush()

    def promote(self) -> int:
        """Put the model into the store and promote it; its version."""
        card = new_card(self.topology, self.model.config, seed=self.settings.version_seed)
        release = ReleaseStore(self.topology.releases.store).save(self.model, card)
        return promote(self.topology, release).version

    @property
    def producer(self) -> KafkaProducer:
        """A client that keeps the order of records in each partition."""
        if self._producer is None:
            self._producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=5, max_block_ms=20_000)
        return self._producer

    def produce(self, records: Iterable[Record] | None = None, timeout_s: float = 20.0) -> None:
        """Records of `interactions`, to the partitions they name; by default the whole log."""
        topic = self.topology.topics.interactions
        sent = [
            self.producer.send(topic, key=b"", value=each.value, partition=each.partition, headers=list(each.headers))
            for each in (self.log.records if records is None else records)
        ]
        self.producer.flush()
        for future in sent:
            future.get(timeout_s)

    def start(
        self,
        name: str = "a",
        app: str = "stream_tgat",
        *,
        plain: bool = False,
        web_port: int | None = None,
        code: Path | None = None,
        **environment: str,
    ) -> Worker:
        """Start `faust -A stream_tgat worker` with a folder of its own, kept between starts of one name.

        plain: from a fresh interpreter, instead of one that has imported everything
        code: the folder of another version of the package, which is always from a fresh interpreter
        """
        log_file = self.folder / f"worker-{name}.log"
        log_file.touch()
        log_start = log_file.stat().st_size
        web = ["--without-web"] if web_port is None else ["--web-port", str(web_port)]
        command = ["faust", "-A", app, "-D", str(self.data(name)), "-l", "info", "worker", *web]
        complete = {
            **os.environ,
            "STREAM_TGAT_TOPOLOGY": str(self.topology_file),
            "KAFKA_BOOTSTRAP_SERVERS": self.servers,
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        process: Process
        if plain or code is not None:
            process = Spawned(command, complete, log_file, code or REPOSITORY)
        else:
            process = Forked(command, complete, log_file)
        worker = Worker(name, process, log_file, log_start)
        self.workers.append(worker)
        return worker

    def data(self, name: str) -> Path:
        """The folder of state of the worker of that name."""
        return self.folder / f"data-{name}"

    def stop(self) -> None:
        """Let what is under way arrive, then stop all workers as an operator would, and take what they still sent."""
        self.settle()
        running = [worker for worker in self.workers if worker.running]
        for worker in running:
            worker.terminate()
        # Not a second signal: that would end them at once.
        for worker in running:
            worker.wait_for_end(40.0)
        self.read()

    def settle(self, timeout_s: float = 30.0) -> None:
        """Wait until the state holds all messages between nodes: the last ones travel when all embeddings are out."""
        consumer, admin = self._subscribed(), KafkaAdminClient(bootstrap_servers=self.servers)
        partitions = [
            TopicPartition(self.topology.topics.propagation, p) for p in range(self.topology.kafka.partitions)
        ]
        deadline = time.monotonic() + timeout_s
        try:
            # Twice: what a cycle sends together may arrive one after the other.
            for _ in range(2):
                ends = consumer.end_offsets(partitions)
                while time.monotonic() < deadline:
                    committed = admin.list_group_offsets(self.topology.app_id)[self.topology.app_id]
                    if all(end == 0 or (tp in committed and committed[tp].offset >= end) for tp, end in ends.items()):
                        break
                    time.sleep(0.1)
        finally:
            admin.close()

    def read(self) -> None:
        """Take what the output topics hold at this moment."""
        consumer = self._subscribed()
        ends = consumer.end_offsets(sorted(consumer.assignment()))
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for tp, records in consumer.poll(timeout_ms=100, max_records=5000).items():
                for record in records:
                    self.outputs.add(self._kinds[tp.topic], record, self.values)

    def wait_until(self, what: str, condition: Callable[[], bool], timeout_s: float = 90.0) -> None:
        """Read outputs until something holds; no worker may end meanwhile unless the test ended it."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.read()
            if condition():
                return
            time.sleep(0.05)
            for worker in self.workers:
                if not worker.expected_to_end and not worker.running:
                    raise AssertionError(
                        f"worker {worker.name} ended with status {worker.process.poll()} before {what}:\n"
                        f"{worker.said()[-4000:]}"
                    )
            if time.monotonic() > deadline:
                ends = "\n".join(f"--- {w.name}\n{w.said()[-2500:]}" for w in self.workers if w.running)
                raise AssertionError(
                    f"not within {timeout_s:.0f} s: {what}; {len(self.outputs.embeddings)} embeddings came\n{ends}"
                )

    def wait_for(self, embeddings: int, timeout_s: float = 90.0) -> None:
        """Wait until that many different embeddings have come."""
        self.wait_until(
            f"{embeddings} embeddings", lambda: len(self.outputs.embeddings) >= embeddings, timeout_s=timeout_s
        )

    def assert_fewer_than(self, embeddings: int) -> None:
        """Something was left to do: what a test does to workers that are done shows nothing."""
        self.read()
        assert len(self.outputs.embeddings) < embeddings, "all was done before the test did anything to the workers"

    def wait_until_said(self, worker: Worker, text: str, timeout_s: float = 60.0) -> None:
        """Wait until the worker has logged that text."""
        self.wait_until(f"{worker.name} says {text!r}", lambda: text in worker.said(), timeout_s=timeout_s)

    @property
    def _kinds(self) -> dict[str, str]:
        topics = self.topology.topics
        return {topics.embeddings: "embeddings", topics.alerts: "alerts", topics.dead_letters: "dead_letters"}

    def _subscribed(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = KafkaConsumer(
                bootstrap_servers=self.servers,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=50,
            )
            everything = [
                TopicPartition(topic, p)
                for topic in self._kinds
                for p in self._consumer.partitions_for_topic(topic) or ()
            ]
            self._consumer.assign(everything)
            self._consumer.seek_to_beginning()
            for tp, position in self._positions.items():
                self._consumer.seek(tp, position)
        return self._consumer
