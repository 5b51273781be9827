"""What these tests do to a broker and to worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

HERE = Path(__file__).parent


class Cluster:
    """Topics of one test and the workers that it started."""

    def __init__(self, bootstrap_servers: str, prefix: str, folder: Path, partitions: int = 4) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.folder = folder
        self.partitions = partitions
        self.workers: list[Worker] = []

    def create(self, *names: str, partitions: int | None = None, **configs: str) -> None:
        """Create topics."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        count = partitions or self.partitions
        admin.create_topics([NewTopic(self.prefix + name, count, 1, topic_configs=configs) for name in names])
        admin.close()

    def delete(self, name: str) -> None:
        """Delete a topic."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        admin.delete_topics([self.prefix + name])
        admin.close()

    def recreate(self, name: str) -> bool:
        """Create a topic that was deleted; False if it is not gone yet."""
        try:
            self.create(name)
        except KafkaError:
            return False
        return True

    def produce(
        self,
        name: str,
        start: int,
        stop: int,
        *,
        per_second: float | None = None,
        size: int = 12,
        key: bytes | None = None,
    ) -> None:
        """Send the numbers start..stop-1 as text, in turns over the partitions."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=5)
        began = time.monotonic()
        for number in range(start, stop):
            producer.send(self.prefix + name, number_value(number, size), key=key, partition=number % self.partitions)
            if per_second:
                time.sleep(max(0.0, began + (number - start) / per_second - time.monotonic()))
        producer.flush()
        producer.close()

    def records(self, topic: str) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """All records of a topic as (partition, key, value)."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest")
        tps = [TopicPartition(topic, partition) for partition in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for tp, found in consumer.poll(timeout_ms=200).items():
                for record in found:
                    yield tp.partition, record.key, record.value
        consumer.close()

    def ends(self, name: str) -> dict[int, int]:
        """The end offset of each partition of a topic."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers)
        tps = [TopicPartition(self.prefix + name, partition) for partition in range(self.partitions)]
        ends = consumer.end_offsets(tps)
        consumer.close()
        return {tp.partition: ends[tp] for tp in tps}

    def commit(self, group: str, name: str, offsets: dict[int, int]) -> None:
        """Commit offsets of partitions of a topic in the name of a group without members."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, group_id=self.prefix + group, enable_auto_commit=False
        )
        commits = {TopicPartition(self.prefix + name, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        consumer.assign(list(commits))
        consumer.commit(commits)
        consumer.close()

    def values(self, name: str) -> Counter[bytes]:
        """How often each value is in a topic."""
        return Counter(value for _, _, value in self.records(self.prefix + name))

    def state(self, table: str = "counter-counts") -> dict[int, dict[bytes, bytes]]:
        """What the changelog of a table amounts to, by partition."""
        state: dict[int, dict[bytes, bytes]] = {partition: {} for partition in range(self.partitions)}
        for partition, key, value in self.records(f"{self.prefix}{table}-changelog"):
            if value is None:
                state[partition].pop(key, None)
            else:
                state[partition][key] = value
        return state

    def counted(self) -> int:
        """How many records the counting workers have counted."""
        return sum(int(state.get(b"count", 0)) for state in self.state().values())

    def start(
        self,
        name: str,
        app: str = "counting_app",
        *,
        transport: dict | None = None,
        worker_options: Sequence[str] = ("--without-web",),
        settings: dict | None = None,
        **env: str,
    ) -> Worker:
        """Start a worker; `name` also names its data folder."""
        env = {
            "BROKER": self.bootstrap_servers,
            "PREFIX": self.prefix,
            "PARTITIONS": str(self.partitions),
            "TRANSPORT": json.dumps(transport or {}),
            "OPTIONS": json.dumps(settings or {}),
            **env,
        }
        worker = Worker(name, app, self.folder, env, worker_options)
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        """Kill what still runs."""
        for worker in self.workers:
            worker.kill()


class Worker:
    """One `faust worker` in its own process."""

    def __init__(self, name: str, app: str, folder: Path, env: dict[str, str], options: Sequence[str]) -> None:
        self.folder = folder / name
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "faust",
                    "-A",
                    app,
                    "--datadir",
                    str(self.folder),
                    "worker",
                    "-l",
                    "info",
                    *options,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=HERE,
                env={**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parents[2]}", "PYTHONUNBUFFERED": "1", **env},
            )

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = 30.0, times: int = 1) -> None:
        """Wait until the log says something."""
        wait_until(lambda: self.text().count(text) >= times or self.process.poll() is not None, timeout_s, self.text)
        assert self.text().count(text) >= times, self.text()[-5000:]

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Stop gracefully; returns the exit status."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """Kill -9."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


def number_value(number: int, size: int = 12) -> bytes:
    """A number as text of a fixed size, without leading zeros, so that it is JSON too."""
    return b"1%0*d" % (size - 1, number)


def wait_until(
    condition: Callable[[], bool], timeout_s: float, explain: Callable[[], str] = str, every_s: float = 0.1
) -> None:
    """Wait for a condition, or fail with an explanation."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s\n{explain()[-5000:]}")
        time.sleep(every_s)
