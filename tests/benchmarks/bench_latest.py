"""What topic `latest` costs: of the engine alone, by interactions in a commit, and of the whole path at 500/s."""

from __future__ import annotations

import os
import time

import numpy as np
from bench_engine import CONFIG, batches, load_stream, make_engine, rocks_store, step
from figures import Figure
from path import PRELOADED, path

from stream_tgat.engine import settle
from stream_tgat.message_passing.outputs import OutputEncoder
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import PacketLayout

RATE = float(os.environ.get("RATE", "500"))
SECONDS, WARM_UP_S = 10.0, 4.0
WARM_UP, INTERACTIONS = 20_000, 5_000
OF_A_COMMIT = (50, 250)


def run() -> list[Figure]:
    return [*_engine(), *_path()]


def _engine() -> list[Figure]:
    """CPU time for each interaction of one thread: computed and stored, and beside it looked at anew and encoded."""
    use_one_thread()
    engine, figures = make_engine(), []
    layout = PacketLayout(40, CONFIG.edge_features, 0, (0, CONFIG.hidden))
    encoder = OutputEncoder(Topology.model_validate({"name": "bench"}), layout, {"latest": 8, "propagation": 8})
    stream, name = load_stream(WARM_UP + INTERACTIONS * len(OF_A_COMMIT))
    with rocks_store() as store:
        engine.open(0, store)
        for batch in batches(stream, 0, WARM_UP, 512):
            step(engine, batch)
        for number, size in enumerate(OF_A_COMMIT):
            begin = WARM_UP + INTERACTIONS * number
            of_stream = of_latest = 0.0
            nodes = 0
            for batch in batches(stream, begin, begin + INTERACTIONS, size):
                began = time.process_time()
                engine.append(0, batch)
                settle(engine, 0, len(batch))
                store.write(engine.take_changes(0))
                engine.committed(0)
                computed = time.process_time()
                engine.take_changes(0)
                found = engine.latest_of(0, np.unique(batch.node))
                encoder.latest(found)
                of_stream += computed - began
                of_latest += time.process_time() - computed
                nodes += len(found)
            context = {
                "stream": name,
                "of_a_commit": size,
                "nodes_per_interaction": round(nodes / INTERACTIONS, 2),
                "engine_us": round(1e6 * of_stream / INTERACTIONS, 1),
            }
            of_each = 1e6 * of_latest / INTERACTIONS
            figures.append(Figure(f"latest_{size}_us", of_each, "us", context=context))
    return figures


def _path() -> list[Figure]:
    figures = []
    for name, serving in (("without_latest", ""), ("with_latest", "latest = true")):
        with path(PRELOADED + int(RATE * (SECONDS + WARM_UP_S)) + 1, serving=serving) as deployment:
            deployment.preload(PRELOADED)
            with deployment.working():
                deployment.wait_for_all()
                live = deployment.live(RATE, SECONDS, WARM_UP_S)
            context = {**deployment.context(), "latest_records": deployment.records("latest") if serving else 0}
            figures += live.figures(f"{name}_{RATE:.0f}", context)
    return figures
