"""Speed and memory of the engine on one core: `run()` gives a list of figures.

The stream is Wikipedia's graph and times where the data set is present, else a synthetic one of the same size; edge
features are random, as the public stream has none. d = 172 edge features, 172 model, 100 time, K = 20, C = 32, two
layers; arena and RocksDB on; every batch is committed. Seconds are CPU seconds of the whole process, RocksDB's threads
included.
"""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stream_tgat.engine import Engine, HalfEdges, both_halves, settle
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.storage.stores import RocksStore

Result = dict[str, Any]

DATASETS = Path(os.environ.get("DATASETS_DIR", Path(__file__).parents[3] / "shared" / "datasets"))
WIDTH = 172
CONFIG = ModelConfig(edge_features=WIDTH, hidden=WIDTH, time_dim=100, neighbours=20, candidates=32, layers=2)
WARM_UP = 20_000


def load_stream(limit: int) -> tuple[HalfEdges, str]:
    """The first `limit` interactions as half-edges, and the stream's name."""
    path = DATASETS / "wikipedia" / "events.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",", skiprows=1, max_rows=limit)
        user, item, times, name = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2], "wikipedia"
    else:
        random = np.random.default_rng(0)
        user, item = random.zipf(1.6, limit) % 8227, random.zipf(1.4, limit) % 1000
        times, name = np.sort(random.random(limit) * 2.7e6), "synthetic"
    return half_edges(user, item, times), name


def half_edges(user: np.ndarray, item: np.ndarray, times: np.ndarray) -> HalfEdges:
    count = len(times)
    edge = np.random.default_rng(1).standard_normal((count, WIDTH), dtype=np.float32)
    return both_halves(
        np.char.add(b"u", user.astype("S8")),
        np.char.add(b"i", item.astype("S8")),
        np.char.add(b"interactions/0/", np.char.zfill(np.arange(count).astype("S12"), 12)),
        times,
        edge,
    )


def make_engine(cache_bytes: int = 1 << 30) -> Engine:
    torch.manual_seed(0)
    return Engine(Model(CONFIG), 1, cache_bytes=cache_bytes)


def step(engine: Engine, batch: HalfEdges) -> None:
    """One micro-batch: in, computed, memos delivered, stored."""
    engine.append(0, batch)
    settle(engine, 0, len(batch))
    engine.save(0)


def batches(stream: HalfEdges, begin: int, end: int, size: int) -> Iterator[HalfEdges]:
    for at in range(begin, end, size):
        yield stream.take(slice(2 * at, 2 * min(end, at + size)))


@contextmanager
def rocks_store() -> Iterator[RocksStore]:
    folder = tempfile.mkdtemp()
    store = RocksStore(folder)
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(folder, ignore_errors=True)


def sgemm_gflops() -> float:
    """float32 matrix product of one core, so that figures of different machines can be compared."""
    a, b = (torch.randn(1024, 1024) for _ in range(2))
    best = float("inf")
    for _ in range(10):
        begin = time.thread_time()
        a @ b
        best = min(best, time.thread_time() - begin)
    return 2 * 1024**3 / best / 1e9


def bench_speed() -> list[Result]:
    results = []
    plan = {512: 20_000, 128: 10_000, 32: 4_000, 8: 2_000, 1: 1_000}
    stream, name = load_stream(WARM_UP + sum(plan.values()))
    context = {"stream": name, "edge_features": WIDTH, "hidden": WIDTH, "time": 100, "K": 20, "C": 32, "layers": 2}
    with rocks_store() as store:
        engine = make_engine()
        engine.open(0, store)
        for batch in batches(stream, 0, WARM_UP, 512):
            step(engine, batch)
        at = WARM_UP
        for size, count in plan.items():
            seconds = []
            for batch in batches(stream, at, at + count, size):
                begin = time.process_time()
                step(engine, batch)
                seconds.append(time.process_time() - begin)
            at += count
            speed = {"name": "engine_events_per_s", "value": count / sum(seconds), "unit": "events/s"}
            results.append({**speed, "context": {**context, "batch": size}})
            if size == 1:
                value = {"value": 1e3 * statistics.median(seconds), "unit": "ms"}
                results.append({"name": "engine_single_event_ms", **value, "context": context})
    return results


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def bench_memory(cache_bytes: int = 4 << 20, nodes: int = 2_000) -> list[Result]:
    """RSS when the number of nodes has grown 100-fold at a fixed cache."""
    results = []
    random = np.random.default_rng(2)
    with rocks_store() as store:
        engine = make_engine(cache_bytes)
        engine.open(0, store)
        at = 0
        for total in (nodes, 10 * nodes, 100 * nodes):
            while at < total:
                count = min(512, total - at)
                batch = half_edges(at + np.arange(count), random.integers(0, 50, count), float(at) + np.arange(count))
                step(engine, batch)
                at += count
            context = {"nodes": total, "cache_bytes": cache_bytes, "in_cache": engine.used_bytes()}
            results.append({"name": "engine_rss_mb", "value": resident_bytes() / 1e6, "unit": "MB", "context": context})
    return results


def run() -> list[Result]:
    """All figures."""
    use_one_thread()
    gflops = {"name": "sgemm_gflops", "value": sgemm_gflops(), "unit": "GFLOP/s", "context": {"threads": 1}}
    # Memory first: what speed leaves behind would hide growth.
    return [gflops, *bench_memory(), *bench_speed()]


if __name__ == "__main__":
    for result in run():
        print(result)
