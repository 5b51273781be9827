"""The whole path on two cores: load, Kafka, workers, Kafka again, and a reader that only notes when embeddings come.

Broker and workers are what an operator starts; what they use is read from the system. An embedding may leave when
nothing earlier can still come, so its latency holds the wait for the promise of that: by punctuation every 20 ms, or by
the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from broker import Broker
from figures import Figure
from kafka import KafkaConsumer, TopicPartition
from load import WIDTH, Generator, Play, Played, Reader, generating, graph, reading
from processes import Meter, Usage, resident_bytes

#: So many are in the log before anything is measured live: neighbourhoods are full then.
PRELOADED = 20_000
WARM_UP = 3_000
INTERACTIONS = 30_000
PATIENCE_S = 90.0

TOPOLOGY = """
name = "bench"
[kafka]
bootstrap_servers = "{servers}"
partitions = {partitions}
[time]
clock = "{clock}"
[model]
layers = 2
neighbours = 20
candidates = 20
hidden = {hidden}
time_dim = 100
[[features]]
name = "features"
kind = "vector"
size = 172
[serving]
device = "cpu"
data_dir = "{folder}/data"
{serving}
[releases]
store = "{folder}/releases"
"""


class Worker:
    """`faust -A stream_tgat worker`, of the package on PYTHONPATH."""

    def __init__(
        self,
        topology_file: Path,
        number: int,
        faust: Sequence[str] = ("-m", "faust"),
        web: Sequence[str] = ("--without-web",),
    ) -> None:
        """faust: how Python is told to run Faust's command line   web: the options of its pages"""
        self.log = topology_file.parent / f"worker-{number}.log"
        data = topology_file.parent / f"worker-{number}"
        options = ["-l", "info", "--datadir", str(data), "worker", *web]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *faust, "-A", "stream_tgat", *options],
                env=environment(topology_file),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def environment(topology_file: Path) -> dict[str, str]:
    """For a command of the package: this topology, and no other Kafka than its own."""
    found = {**os.environ, "STREAM_TGAT_TOPOLOGY": str(topology_file)}
    found.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    return found


def faust(topology_file: Path, line: str) -> None:
    """Run a command to its end, such as "topics create"."""
    command = [sys.executable, "-m", "faust", "-A", "stream_tgat", *line.split()]
    done = subprocess.run(command, env=environment(topology_file), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{line} failed: {(done.stdout + done.stderr)[-3000:]}")


@dataclass
class Deployment:
    """A deployment under load. at: the next interaction that has not been played"""

    file: Path
    broker: Broker
    generator: Generator
    reader: Reader
    partitions: int
    clock: str
    hidden: int = WIDTH
    workers: Sequence[Worker] = ()
    at: int = 0

    def meter(self) -> Meter:
        assert self.broker.pid is not None
        workers = {f"worker-{number}": worker.pid for number, worker in enumerate(self.workers)}
        return Meter({**workers, "broker": self.broker.pid, "generator": self.generator.pid, "reader": self.reader.pid})

    def wait_for(self, what: str, condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Wait until something holds, as long as the workers run."""
        deadline = time.monotonic() + patience_s
        while not condition():
            ended = [worker for worker in self.workers if worker.has_ended]
            if ended or time.monotonic() > deadline:
                log = (ended or self.workers)[0].log.read_text()
                raise RuntimeError(f"waited in vain for {what}; the worker said:\n{log[-3000:]}")
            time.sleep(0.01)

    def resident_mb(self) -> float:
        return sum(resident_bytes(worker.pid) for worker in self.workers) / 1e6

    @contextmanager
    def working(self, count: int = 1, **options: Sequence[str]) -> Iterator[None]:
        """With so many workers. options: see Worker"""
        self.workers = [Worker(self.file, number, **options) for number in range(count)]
        try:
            yield
        finally:
            for worker in self.workers:
                worker.stop()
            self.workers = ()

    def take(self, count: int, rate: float | None = None, punctuate_s: float = 0.02) -> Play:
        """The next interactions, to be played."""
        play = Play(self.at, count, rate, self.clock == "wall", punctuate_s)
        self.at += count
        return play

    def preload(self, count: int) -> None:
        self.generator.play(self.take(count, punctuate_s=0.1))

    def wait_for_all(self) -> None:
        """Wait until both embeddings of everything that has been played are there."""
        self.wait_for("the embeddings", lambda: self.reader.count >= 2 * self.at)

    def live(self, rate: float, seconds: float, warm_up_s: float = 3.0) -> Live:
        """Play at a rate; everything that it makes is out at the end."""
        if warm_up_s:
            self.generator.play(self.take(int(rate * warm_up_s), rate))
            self.wait_for_all()
        before = self.records("propagation")
        play, meter = self.take(int(rate * seconds), rate), self.meter()
        played = self.generator.play(play)
        self.wait_for_all()
        usage = meter.usage()
        # Each cycle of ingest sends one record to each partition; what commits send besides is little.
        chains = (self.records("propagation") - before) / self.partitions
        return Live(play, played, usage, self.reader.latency_s(play, played), chains / usage.seconds)

    def records(self, *topics: str) -> int:
        """How many records these topics have had."""
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            places = [TopicPartition(topic, p) for topic in topics for p in consumer.partitions_for_topic(topic)]
            return sum(consumer.end_offsets(places).values())
        finally:
            consumer.close()

    def context(self) -> dict[str, object]:
        return {
            "clock": self.clock,
            "partitions": self.partitions,
            "stream": graph().name,
            "format": "json",
            "shape": f"edge {WIDTH}, hidden {self.hidden}, time 100, K 20, layers 2",
            "cores": len(os.sched_getaffinity(0)),
        }


@dataclass(frozen=True)
class Live:
    """What came of a play. latency_s: [count, 2]   chains: of fetch, ingest, propagate and deliver, a second"""

    play: Play
    played: Played
    usage: Usage
    latency_s: np.ndarray
    chains: float

    def percentile_ms(self, q: float) -> float:
        return float(1e3 * np.percentile(self.latency_s, q))

    def figures(self, prefix: str, context: dict[str, object]) -> list[Figure]:
        """Latency, and the CPU time of everybody for each interaction."""
        count = self.play.count
        context = {
            **context,
            "rate": round(count / max(self.played.seconds, 1e-9)),
            "seconds": round(self.usage.seconds, 1),
            "chains_per_s": round(self.chains, 1),
            "generator_behind_p99_ms": round(1e3 * self.played.behind_s, 1),
            "beside_cores": round(self.usage.beside_cores, 2),
        }
        return [
            Figure(f"{prefix}_p50_ms", self.percentile_ms(50), "ms", context=context),
            Figure(f"{prefix}_p99_ms", self.percentile_ms(99), "ms", context=context),
            *cpu_figures(prefix, self.usage, count, context),
        ]


def cpu_figures(prefix: str, usage: Usage, count: int, context: dict[str, object]) -> list[Figure]:
    load_us = usage.us("generator", count) + usage.us("reader", count)
    return [
        Figure(f"{prefix}_worker_us", usage.us("worker", count), "us", context=context),
        Figure(f"{prefix}_broker_us", usage.us("broker", count), "us", context=context),
        Figure(f"{prefix}_load_us", load_us, "us", context=context),
    ]


@contextmanager
def path(
    interactions: int, partitions: int = 8, clock: str = "event", serving: str = "", hidden: int = WIDTH
) -> Iterator[Deployment]:
    """A broker with topics and an untrained release, and the processes of the load.

    interactions: at most that many   serving: more lines of that section of the topology
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker(folder / "broker"))
        servers = broker.bootstrap_servers
        file = folder / "topology.toml"
        values = {"servers": servers, "clock": clock, "folder": folder, "partitions": partitions, "serving": serving}
        values["hidden"] = hidden
        file.write_text(TOPOLOGY.format(**values))
        faust(file, "topics create")
        faust(file, "release init")
        reader = stack.enter_context(reading(servers, "embeddings", interactions))
        generator = stack.enter_context(generating(servers, "interactions"))
        yield Deployment(file, broker, generator, reader, partitions, clock, hidden)


def steadily(prefix: str, rates: Sequence[float], seconds: float, warm_up_s: float, **deployed: Any) -> list[Figure]:
    """Figures of one worker at these rates, one after the other, with a full log before. deployed: see `path`"""
    with path(PRELOADED + int(sum(rates) * (seconds + warm_up_s)) + 1, **deployed) as deployment:
        deployment.preload(PRELOADED)
        figures = []
        with deployment.working():
            deployment.wait_for_all()
            for rate in rates:
                live = deployment.live(rate, seconds, warm_up_s)
                figures += live.figures(f"{prefix}_{rate:.0f}", deployment.context())
        return figures


def bulk(deployment: Deployment, count: int = INTERACTIONS) -> tuple[float, Usage]:
    """The log is there before the worker starts. Measured from the moment when the warm-up's embeddings have come.

    Returns interactions a second, and what was used meanwhile. Wants a worker that has just been started.
    """
    end = deployment.at
    deployment.wait_for("the warm-up", lambda: deployment.reader.count >= 2 * (end - count))
    meter, first = deployment.meter(), deployment.reader.count
    began = time.perf_counter()
    deployment.wait_for_all()
    usage = meter.usage()
    last = float(deployment.reader.arrived[:end].max())
    # CPU time is of the interactions that came meanwhile, to which a batch more or less does not matter.
    done = (2 * end - first) // 2
    scaled = {name: seconds * count / done for name, seconds in usage.of.items()}
    return done / (last - began), Usage(usage.seconds, scaled, usage.beside_cores)
