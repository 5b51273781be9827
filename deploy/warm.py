"""Compile the loops ahead: `python deploy/warm.py`, run by `make` when one of them has changed.

numba compiles a loop when it is first called and keeps the result beside its source for later processes. In a fresh
clone the test processes, the workers they start and the benchmarks would all compile the same loops at the same time;
so one small stream through engine and training, which reaches every loop, comes before them.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numba.core.dispatcher import Dispatcher

import stream_tgat
from stream_tgat.engine import AlertPolicy, Engine, HalfEdges, both_halves, settle
from stream_tgat.graph.decayed import decayed_sums
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.training.scoring import TemporalGraph
from stream_tgat.wire.vectors import parse_lists

INTERACTIONS = 800
CACHE_BYTES = 1  # the arena takes the least it can work with


def main() -> int:
    """Run the stream; 1 when there is a loop that it does not reach."""
    start = time.monotonic()
    run_stream()
    train_a_little()
    parse_lists([b"0.5", b"0.12345678901234567"], 1)
    missed = not_compiled()
    if missed:
        print(f"error: {__file__} does not reach {', '.join(missed)}; let its stream do so", file=sys.stderr)
        return 1
    print(f"compiled the loops ({time.monotonic() - start:.0f} s)")
    return 0


def run_stream() -> None:
    """Every kind of work an engine does: both samplings, eviction, reloading, messages too early, rows too late."""
    use_one_thread()
    for sampling in ("recent", "uniform"):
        config = ModelConfig(
            edge_features=2, hidden=4, time_dim=4, neighbours=3, candidates=5, layers=2, activity=True,
            sampling=sampling, head_names=("head",), node_features=1, decay_s=(100.0,),
        )  # fmt: skip
        torch.manual_seed(0)
        # A threshold that is crossed all the time, and a cache so small that nodes leave it and come back.
        policy = AlertPolicy((0.5,), (0.0,))
        engine = Engine(Model(config).eval(), 1, cache_bytes=CACHE_BYTES, alerts=policy, max_wait_s=0.0)
        store = MemoryStore()
        engine.open(0, store)
        engine.set_features(0, np.array([b"u0"]), np.ones((1, 1), np.float32))
        stream = interactions()
        for at in range(0, len(stream), 100):
            engine.append(0, stream.take(slice(at, at + 100)))
            settle(engine, 0, 20)
            engine.save(0)
        # Peer embeddings without their rows, and rows that are still waiting when their partition is opened again.
        engine.append(0, interactions(later=1e6).take(slice(0, 20)))
        for peer_embeddings in engine.compute({0: np.inf}, 10).peer_embeddings:
            engine.fill(0, peer_embeddings)
        engine.save(0)
        engine.drop(0)
        engine.open(0, store)
        # Another model takes over while they wait, and the peer embeddings of all rows are asked for.
        engine.swap(Model(config).eval(), 2, policy)
        settle(engine, 0, 20)
        engine.save(0)
        for peer_embeddings in engine.kept_peer_embeddings(0):
            engine.fill(0, peer_embeddings)
        engine.embed(0, np.array([b"u0"]), np.array([2e6]))


def train_a_little() -> None:
    """Forward and backward through two layers over rows where they lie, and decayed sums."""
    random = np.random.default_rng(0)
    source, destination = random.integers(0, 30, 200), random.integers(30, 60, 200)
    log = Interactions.in_time_order(source, destination, np.arange(200.0), random.random((200, 2)))
    model = Model(ModelConfig(edge_features=2, hidden=4, time_dim=4, neighbours=3, candidates=5, activity=True)).train()
    graph = TemporalGraph.of(log, None)
    graph.embed(model, source[:20], np.full(20, 200.0)).sum().backward()  # type: ignore[no-untyped-call]
    decayed_sums(graph.history, source[:20], np.full(20, 200.0), (50.0,))


def interactions(later: float = 0.0) -> HalfEdges:
    """A small stream of many nodes, with one that is far busier than the rest."""
    random = np.random.default_rng(0)
    busy = random.random(INTERACTIONS) < 0.2
    users = np.where(busy, 0, random.integers(0, 300, INTERACTIONS)).astype("S8")
    items = random.integers(0, 300, INTERACTIONS).astype("S8")
    return both_halves(
        np.char.add(b"u", users),
        np.char.add(b"i", items),
        np.char.add(b"late" if later else b"soon", np.arange(INTERACTIONS).astype("S8")),
        np.floor(np.sort(random.random(INTERACTIONS) * 300.0)) + later,
        random.random((INTERACTIONS, 2), dtype=np.float32),
    )


def not_compiled() -> list[str]:
    """Names of the package's loops for which there is no machine code on disk."""
    missed = set()
    for module in pkgutil.walk_packages(stream_tgat.__path__, "stream_tgat."):
        if module.name.endswith("__main__"):
            continue
        for loop in vars(importlib.import_module(module.name)).values():
            if not isinstance(loop, Dispatcher):
                continue
            function = loop.py_func
            name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
            if not any(Path(str(loop.stats.cache_path)).glob(f"{name}-{function.__code__.co_firstlineno}.*.nbi")):
                missed.add(name)
    return sorted(missed)


if __name__ == "__main__":
    sys.exit(main())
