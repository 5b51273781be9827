"""A worker under steady load for long: memory, file handles and lag must not grow.

    make soak MINUTES=30 RATE=1000

Writes docs/reliability/soak.json and soak.svg, and docs/reliability.md anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import orjson
import psutil
from broker import Broker
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from rich.progress import PartitionProgress
from scipy.stats import theilslopes

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.nn.model import Model
from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.promotion import promote
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.training.shape import model_config
from tests.faults.page import write_page
from tests.faults.results import FOLDER, SOAK, read_outcomes
from tests.integration.equality.workers import Spawned

FIGURE = FOLDER / "soak.svg"
_EVERY_S = 5.0
_WARM_UP = 0.2  # of the time: caches fill, tables of RocksDB reach their sizes
_USERS, _ITEMS = 5_000, 500
_TOPOLOGY = """
name = "soak"
[kafka]
bootstrap_servers = "{servers}"
partitions = 4
[time]
clock = "wall"
[model]
layers = 2
neighbours = 10
candidates = 20
hidden = 64
time_dim = 32
[[features]]
name = "amount"
kind = "number"
[[heads]]
name = "banned"
threshold = 0.9
[serving]
device = "cpu"
data_dir = "{folder}/data"
[releases]
store = "{folder}/releases"
"""


@dataclass(frozen=True)
class Sample:
    """One look at the worker. cores: CPU time per time   lag: interactions that have no embeddings yet"""

    seconds: float
    memory_mb: float
    handles: int
    threads: int
    cores: float
    lag: int
    embeddings: int


@dataclass(frozen=True)
class Slope:
    """Growth per hour (Theil-Sen), with its interval of 95 %, and the median level."""

    name: str
    unit: str
    level: float
    per_hour: float
    low: float
    high: float


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="interactions a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, Broker(Path(name) / "broker") as broker:
        samples, sent = run(broker.bootstrap_servers, Path(name), 60 * options.minutes, options.rate)
    slopes = slopes_of(samples)
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {"minutes": options.minutes, "rate": options.rate, "sent": sent, "received": samples[-1].embeddings}
    content |= {"slopes": [asdict(each) for each in slopes], "samples": [asdict(each) for each in samples]}
    SOAK.write_text(json.dumps(content) + "\n")
    draw(samples)
    print(f"wrote {write_page(read_outcomes())}")
    for each in slopes:
        growth = f"{each.per_hour:+.3g} an hour [{each.low:+.3g}, {each.high:+.3g}]"
        print(f"{each.name}: {each.level:.4g} {each.unit}, {growth}")
    if samples[-1].embeddings != 2 * sent:
        print(f"{2 * sent - samples[-1].embeddings} embeddings are missing")
        return 1
    return 0


def run(servers: str, folder: Path, seconds: float, rate: float) -> tuple[list[Sample], int]:
    """The samples, the last one when all is done; and how many interactions were sent."""
    topology = _deploy(servers, folder)
    environment = {**os.environ, "STREAM_TGAT_TOPOLOGY": str(folder / "topology.toml")}
    worker = Spawned(["faust", "-A", "stream_tgat", "worker", "--without-web"], environment, folder / "worker.log")
    ended = threading.Event()
    counts = {"sent": 0, "received": 0}
    threads = [
        threading.Thread(target=_produce, args=(topology, rate, seconds, counts, ended)),
        threading.Thread(target=_count, args=(topology, counts, ended)),
    ]
    for thread in threads:
        thread.start()
    samples: list[Sample] = []
    try:
        process = psutil.Process(worker.pid)
        with PartitionProgress() as bar:
            task = bar.add_task("soaking", total=seconds)
            started, last_cpu, last = time.monotonic(), 0.0, time.monotonic()
            while threads[0].is_alive() or (counts["received"] < 2 * counts["sent"] and not _stuck(samples)):
                time.sleep(_EVERY_S)
                status = worker.poll()
                if status is not None:
                    raise SystemExit(f"the worker ended with {status}:\n{(folder / 'worker.log').read_text()[-3000:]}")
                now, times = time.monotonic(), process.cpu_times()
                cpu = times.user + times.system
                samples.append(
                    Sample(
                        round(now - started, 2),
                        round(process.memory_info().rss / 2**20, 2),
                        process.num_fds(),
                        process.num_threads(),
                        round((cpu - last_cpu) / (now - last), 3),
                        counts["sent"] - counts["received"] // 2,
                        counts["received"],
                    )
                )
                last_cpu, last = cpu, now
                bar.update(task, completed=min(now - started, seconds))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        worker.kill()
    return samples, counts["sent"]


def slopes_of(samples: Sequence[Sample]) -> list[Slope]:
    """How what must not grow grew, from the end of the warm-up to the last interaction."""
    whole = samples[-1].seconds
    steady = [each for each in samples if each.seconds >= _WARM_UP * whole]
    hours = np.array([each.seconds for each in steady]) / 3600
    found = []
    for name, unit, values in (
        ("memory", "MB", [each.memory_mb for each in steady]),
        ("file handles", "", [each.handles for each in steady]),
        ("threads", "", [each.threads for each in steady]),
        ("lag", "interactions", [each.lag for each in steady]),
        ("CPU", "cores", [each.cores for each in steady]),
    ):
        slope = theilslopes(np.array(values, float), hours)
        found.append(Slope(name, unit, float(np.median(values)), *(float(each) for each in (slope[0], *slope[2:4]))))
    return found


def draw(samples: Sequence[Sample]) -> None:
    """The figure: memory, handles, lag and CPU over time."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    minutes = [each.seconds / 60 for each in samples]
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, layout="constrained")
    for axis, title, values in zip(
        axes.flat,
        ("memory, MB", "file handles", "lag, interactions", "CPU, cores"),
        zip(*((each.memory_mb, each.handles, each.lag, each.cores) for each in samples), strict=True),
        strict=True,
    ):
        axis.plot(minutes, values, linewidth=1)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0)
    for axis in axes[1]:
        axis.set_xlabel("minutes")
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def _deploy(servers: str, folder: Path) -> Topology:
    file = folder / "topology.toml"
    file.write_text(_TOPOLOGY.format(servers=servers, folder=folder))
    topology = load_topology(file)
    ensure_topics(topology)
    model = Model(model_config(topology)).eval()
    promote(topology, ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=0)))
    return topology


def _produce(topology: Topology, rate: float, seconds: float, counts: dict[str, int], ended: threading.Event) -> None:
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers, linger_ms=5)
    started = time.monotonic()
    for n, value in enumerate(_interactions(seed=0)):
        due = started + n / rate
        if due > started + seconds or ended.is_set():
            break
        if due > time.monotonic():
            time.sleep(0.01)
        value["timestamp"] = time.time()
        producer.send(topology.topics.interactions, key=value["user"].encode(), value=orjson.dumps(value))
        counts["sent"] = n + 1
    producer.flush()
    producer.close()


def _interactions(seed: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(seed)
    n = 0
    while True:
        # A few users have most of the interactions, as everywhere.
        users = (_USERS * random.random(1000) ** 3).astype(int).tolist()
        items = (_ITEMS * random.random(1000) ** 3).astype(int).tolist()
        for user, item in zip(users, items, strict=True):
            yield {"id": f"s{n:09d}", "user": f"u{user}", "item": f"i{item}", "amount": n % 17}
            n += 1


def _count(topology: Topology, counts: dict[str, int], ended: threading.Event) -> None:
    consumer = KafkaConsumer(bootstrap_servers=topology.kafka.bootstrap_servers, enable_auto_commit=False)
    topic = topology.topics.embeddings
    partitions = [TopicPartition(topic, p) for p in range(topology.kafka.partitions)]
    try:
        while not ended.is_set():
            # Offsets are enough: reading two thousand embeddings a second would cost more than making them.
            counts["received"] = sum(consumer.end_offsets(partitions).values())
            time.sleep(0.05)  # what comes in between counts as lag
    finally:
        consumer.close()


def _stuck(samples: Sequence[Sample]) -> bool:
    """Nothing has come for a minute."""
    recent = samples[-round(60 / _EVERY_S) :]
    return len(recent) * _EVERY_S >= 60 and recent[0].embeddings == recent[-1].embeddings


if __name__ == "__main__":
    sys.exit(main())
