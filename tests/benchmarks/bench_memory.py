"""Memory of the engine as nodes come: a hundred times as many at a fixed cache."""

from __future__ import annotations

import os

import numpy as np
from bench_engine import half_edges, make_engine, rocks_store, step
from figures import Figure
from processes import resident_bytes

from stream_tgat.nn.threads import use_one_thread


def grown(cache_bytes: int = 4 << 20, nodes: int = 2_000) -> list[Figure]:
    """RSS when the number of nodes has grown 100-fold at a fixed cache."""
    results: list[Figure] = []
    random = np.random.default_rng(2)
    with rocks_store() as store:
        engine = make_engine(cache_bytes)
        engine.open(0, store)
        at = 0
        for total in (nodes, 10 * nodes, 100 * nodes):
            while at < total:
                count = min(512, total - at)
                users = np.char.add(b"u", (at + np.arange(count)).astype("S8"))
                items = np.char.add(b"i", random.integers(0, 50, count).astype("S8"))
                batch = half_edges(users, items, float(at) + np.arange(count))
                step(engine, batch)
                at += count
            context = {"nodes": total, "cache_bytes": cache_bytes, "in_cache": engine.used_bytes()}
            resident = resident_bytes(os.getpid()) / 1e6
            results.append(Figure(f"engine_rss_{total}_mb", resident, "MB", context=context))
    return results


def run() -> list[Figure]:
    use_one_thread()
    return grown()
