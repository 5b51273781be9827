"""The whole path on two cores: Kafka, one worker, Kafka again, with a consumer that only counts.

Throughput: the log is there before the worker starts; measured from the moment when the warm-up's embeddings have come
to the last one. Latency: the same worker's state, records produced at half of the rate that the design asks for and at
half of the measured one, from just before a record is handed to the producer to the moment when a consumer has its
embedding. An embedding may leave when nothing earlier can still come, so its latency holds the wait for the promise of
that: by punctuation (clock = "event") or by the clock ("wall").
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from bench_engine import load_stream
from broker import Broker

from stream_tgat.commands.replay import Pace, send_paced
from stream_tgat.commands.replayer import Replayer, open_replayer
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.evaluation.datasets.stream import StreamRecord
from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import ReleaseStore, new_card

Result = dict[str, Any]

CORES = 2
WIDTH = 172
WARM_UP = 3_000
INTERACTIONS = 30_000
STREAM = 150_000
LATENCY_S = 20.0
LATENCY_WARM_UP_S = 10.0
ASKED_RATE = 3_000
PUNCTUATE_S = 0.02
PATIENCE_S = 60.0
# Interactions have numbers for ids, and an embedding's JSON begins with its id.
ID_BEGINS, ID_DIGITS = len('{"id":"'), 8

TOPOLOGY = """
name = "bench"
[kafka]
bootstrap_servers = "{servers}"
partitions = 8
[time]
clock = "{clock}"
[model]
layers = 2
neighbours = 20
candidates = 20
hidden = 172
time_dim = 100
[[features]]
name = "features"
kind = "vector"
size = 172
[serving]
device = "cpu"
data_dir = "{folder}/data"
[releases]
store = "{folder}/releases"
"""


@dataclass(frozen=True)
class Stream:
    """Interactions to produce, again from the beginning when all have been.

    users, items: their ids [N]   time: unix seconds [N]   edge: f4[N, 172]
    """

    name: str
    users: list[bytes]
    items: list[bytes]
    time: np.ndarray
    edge: np.ndarray

    def values(self, begin: int, end: int) -> list[bytes]:
        """JSON of interactions begin … end, up to the timestamp."""
        numbers = orjson.OPT_SERIALIZE_NUMPY
        return [
            b'{"id":"%0*d","user":"%b","item":"%b","features":%b,"timestamp":'
            % (ID_DIGITS, n, self.users[at], self.items[at], orjson.dumps(self.edge[at], option=numbers))
            for n in range(begin, end)
            for at in (n % len(self.users),)
        ]

    def records(self, begin: int, values: list[bytes], now: float | None, rate: float = 1.0) -> Iterator[StreamRecord]:
        """Interactions from `begin` on, at their own time, or as if the first happened now and `rate` a second."""
        span = float(self.time[-1] - self.time[0]) + 1.0
        for n, value in enumerate(values):
            rounds, at = divmod(begin + n, len(self.users))
            when = float(self.time[at]) + rounds * span if now is None else now + n / rate
            yield StreamRecord("interactions", self.users[at], b"%b%r}" % (value, when), when)


def make_stream(count: int) -> Stream:
    half_edges, name = load_stream(count)
    users, items = ([node[1:] for node in nodes[0::2].tolist()] for nodes in (half_edges.node, half_edges.peer))
    # A millisecond apart at least: two phases must not share a time, as the first ends with the promise of its end.
    times = 1.5e9 + half_edges.time[0::2]
    times += 1e-3 * np.arange(len(times))
    return Stream(name, users, items, times, half_edges.edge[0::2].round(3))


class Counting:
    """A consumer of embeddings: how many have come, and when each came."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.count = 0
        self.late = 0
        self.crossed: dict[int, float] = {}
        self.sent_at: dict[int, float] = {}
        self.latency_s: list[float] = []

    async def run(self, marks: Iterable[int] = ()) -> None:
        """Count for ever; `crossed` says when each of `marks` was reached."""
        waiting = sorted(marks)
        while True:
            batches = await self._consumer.getmany(timeout_ms=1000)
            now = time.perf_counter()
            self.count += sum(map(len, batches.values()))
            while waiting and self.count >= waiting[0]:
                self.crossed[waiting.pop(0)] = now
            if self.sent_at:
                self._look_at(batches.values(), now)

    def _look_at(self, batches: Iterable[list[Any]], now: float) -> None:
        for records in batches:
            for record in records:
                sent = self.sent_at.get(int(record.value[ID_BEGINS : ID_BEGINS + ID_DIGITS]))
                if sent is not None:
                    self.latency_s.append(now - sent)
                    self.late += b'"late":true' in record.value[:400]


@asynccontextmanager
async def counting(topology: Topology, marks: Iterable[int] = ()) -> AsyncIterator[Counting]:
    """Counts from here on."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=topology.kafka.bootstrap_servers,
        max_partition_fetch_bytes=4 << 20,
        fetch_max_wait_ms=50,
        check_crcs=False,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topology.topics.embeddings, p) for p in range(topology.kafka.partitions)])
        await consumer.seek_to_end()
        counts = Counting(consumer)
        task = asyncio.create_task(counts.run(marks))
        yield counts
        task.cancel()
    finally:
        await consumer.stop()


class Worker:
    """`faust -A stream_tgat worker`."""

    def __init__(self, topology_file: Path) -> None:
        self.log = topology_file.parent / "worker.log"
        environment = {**os.environ, "STREAM_TGAT_TOPOLOGY": str(topology_file)}
        environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
        command = [sys.executable, "-m", "faust", "-A", "stream_tgat", "-l", "info", "worker", "--without-web"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def cpu_s(self) -> float:
        """CPU time used so far, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until something holds, as long as this worker runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain for {what}; the worker said:\n{self.log.read_text()[-3000:]}")
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_worker(topology_file: Path) -> Iterator[Worker]:
    worker = Worker(topology_file)
    try:
        yield worker
    finally:
        worker.stop()


def write_topology(file: Path, servers: str, clock: str) -> Topology:
    file.write_text(TOPOLOGY.format(servers=servers, clock=clock, folder=file.parent))
    return load_topology(file)


def release(topology: Topology) -> None:
    """Untrained weights, as `release init` makes them."""
    model = untrained(topology, seed=0)
    made = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=0))
    promote(topology, made)


async def produce(topology: Topology, records: Iterable[StreamRecord]) -> None:
    async with open_replayer(topology) as replayer:
        await replayer.send(records)
        await replayer.finish()


async def measure_throughput(worker: Worker, counts: Counting, first: int, last: int) -> Result:
    """Interactions a second between the `first` and the `last` embedding."""
    await worker.wait_for("the warm-up", lambda: first in counts.crossed)
    cpu = worker.cpu_s()
    await worker.wait_for("the embeddings", lambda: last in counts.crossed)
    seconds = counts.crossed[last] - counts.crossed[first]
    interactions = (last - first) // 2
    return {
        "name": "end_to_end_interactions_per_s",
        "value": interactions / seconds,
        "unit": "interactions/s",
        "context": {"interactions": interactions, "worker_cpu_us": round((worker.cpu_s() - cpu) / interactions * 1e6)},
    }


class Stamping:
    """Notes when each record leaves for the replayer."""

    def __init__(self, replayer: Replayer, counts: Counting, begin: int) -> None:
        self._replayer, self._counts, self._next = replayer, counts, begin

    async def send(self, records: Iterable[StreamRecord]) -> None:
        batch = list(records)
        self._counts.sent_at.update(dict.fromkeys(range(self._next, self._next + len(batch)), time.perf_counter()))
        self._next += len(batch)
        await self._replayer.send(batch)


async def measure_latency(
    topology: Topology, worker: Worker, counts: Counting, stream: Stream, begin: int, rate: float
) -> list[Result]:
    """Percentiles over all embeddings of interactions produced at `rate`."""
    by_the_clock = topology.time.clock == "wall"
    # Live producers do not punctuate: the clock does.
    punctuation = {"punctuate_every": 1 << 60, "punctuate_every_s": 1e9 if by_the_clock else PUNCTUATE_S}
    async with open_replayer(topology, **punctuation) as replayer:

        async def play(at: int, count: int) -> float:
            counts.latency_s.clear()
            counts.late = 0
            values = stream.values(at, at + count)
            start = time.perf_counter()
            records = stream.records(at, values, time.time() if by_the_clock else None, rate)
            await send_paced(Stamping(replayer, counts, at), records, Pace(rate=rate))
            seconds = time.perf_counter() - start
            if not by_the_clock:
                await replayer.finish()
            await worker.wait_for("the embeddings", lambda: len(counts.latency_s) >= 2 * count)
            return seconds

        warm_up, count = int(rate * LATENCY_WARM_UP_S), int(rate * LATENCY_S)
        await play(begin, warm_up)
        cpu = worker.cpu_s()
        seconds = await play(begin + warm_up, count)
        cpu = worker.cpu_s() - cpu
    latency_ms = 1e3 * np.array(counts.latency_s)
    context = {
        "clock": topology.time.clock,
        "rate": round(count / seconds),
        "seconds": round(seconds, 1),
        "late_share": round(counts.late / len(counts.latency_s), 3),
        "worker_cpu_us": round(cpu / count * 1e6),
    }
    if not by_the_clock:
        context["punctuation_ms"] = 1e3 * PUNCTUATE_S
    return [
        {"name": f"latency_p{q}_ms", "value": float(np.percentile(latency_ms, q)), "unit": "ms", "context": context}
        for q in (50, 99)
    ]


def played(rate: float) -> int:
    """How many interactions `measure_latency` takes from the stream."""
    return int(rate * LATENCY_WARM_UP_S) + int(rate * LATENCY_S)


async def measure(folder: Path, servers: str) -> list[Result]:
    file = folder / "topology.toml"
    topology = write_topology(file, servers, "event")
    ensure_topics(topology)
    release(topology)
    preloaded = WARM_UP + INTERACTIONS
    stream = make_stream(STREAM)
    await produce(topology, stream.records(0, stream.values(0, preloaded), None))
    async with counting(topology, (2 * WARM_UP, 2 * preloaded)) as counts:
        with running_worker(file) as worker:
            results = [await measure_throughput(worker, counts, 2 * WARM_UP, 2 * preloaded)]
            at = preloaded
            rates = (ASKED_RATE / 2, results[0]["value"] / 2)
            for rate in rates:
                results += await measure_latency(topology, worker, counts, stream, at, rate)
                at += played(rate)
    topology = write_topology(file, servers, "wall")
    async with counting(topology) as counts:
        with running_worker(file) as worker:
            for rate in rates:
                results += await measure_latency(topology, worker, counts, stream, at, rate)
                at += played(rate)
    shape = {"edge_features": WIDTH, "hidden": WIDTH, "time": 100, "K": 20, "layers": topology.model.layers}
    machine = {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "workers": 1}
    partitions = {"partitions": topology.kafka.partitions, "stream": stream.name, "format": "json"}
    return [{**each, "context": {**each["context"], **partitions, **shape, **machine}} for each in results]


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def run() -> list[Result]:
    """All figures; the broker, the worker and everything they write are gone afterwards."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        return asyncio.run(measure(Path(folder), broker.bootstrap_servers))


if __name__ == "__main__":
    for result in run():
        print(result)
