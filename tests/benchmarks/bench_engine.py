"""The engine on one core, by batch size.

The stream is Wikipedia's graph and times where the data set is present, else a synthetic one of the same size; edge
features are random, as the public stream has none. d = 172 edge features, 172 model, 100 time, K = 20, C = 32, two
layers; arena and RocksDB on; every batch is committed. Seconds are CPU seconds of the whole process, RocksDB's threads
included.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from figures import Figure
from load import WIDTH, graph
from speed import sgemm_gflops

from stream_tgat.engine import Engine, HalfEdges, both_halves, settle
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.storage.stores import RocksStore

CONFIG = ModelConfig(edge_features=WIDTH, hidden=WIDTH, time_dim=100, neighbours=20, candidates=32, layers=2)
WARM_UP = 20_000


def load_stream(limit: int) -> tuple[HalfEdges, str]:
    """The first `limit` interactions as half-edges, and the stream's name."""
    known = graph()
    users, items = (np.array(nodes[:limit]) for nodes in (known.users, known.items))
    return half_edges(users, items, known.time[:limit]), known.name


def half_edges(user: np.ndarray, item: np.ndarray, times: np.ndarray) -> HalfEdges:
    count = len(times)
    edge = np.random.default_rng(1).standard_normal((count, WIDTH), dtype=np.float32)
    return both_halves(
        user.astype("S9"),
        item.astype("S9"),
        np.char.add(b"interactions/0/", np.char.zfill(np.arange(count).astype("S12"), 12)),
        times,
        edge,
    )


def make_engine(cache_bytes: int = 1 << 30) -> Engine:
    torch.manual_seed(0)
    return Engine(Model(CONFIG), 1, cache_bytes=cache_bytes)


def step(engine: Engine, batch: HalfEdges) -> None:
    """One micro-batch: in, computed, peer embeddings delivered, stored."""
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


def bench_speed() -> list[Figure]:
    results: list[Figure] = []
    plan = {512: 20_000, 128: 10_000, 32: 8_000, 8: 2_000, 1: 1_000}
    stream, name = load_stream(WARM_UP + sum(plan.values()))
    shape = {"stream": name, "edge_features": WIDTH, "hidden": WIDTH, "time": 100, "K": 20, "C": 32, "layers": 2}
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
            context = {**shape, "batch": size, "gflops": round(sgemm_gflops(5))}
            rate = count / sum(seconds)
            results.append(Figure(f"engine_{size}_per_s", rate, "/s", more_is_better=True, context=context))
            if size == 1:
                results.append(Figure("engine_one_ms", 1e3 * statistics.median(seconds), "ms", context=context))
    return results


def run() -> list[Figure]:
    use_one_thread()
    return bench_speed()
