"""What the stream feels of its model being renewed: switches, re-encoding, and training beside it, on two cores.

Interactions come at 500 a second all the time. Each phase is measured as `bench_stream` measures latency: every
interaction's embeddings have to come. What runs beside is the command that an operator would run.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import bench_stream as base
import numpy as np
import orjson
from broker import Broker

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import read_topic
from stream_tgat.training.pipeline import untrained
from stream_tgat.training.promotion import promote, reencoded_in
from stream_tgat.training.registry import ReleaseStore, new_card
from stream_tgat.wire.packets import partitions_of

Result = dict[str, Any]

RATE = 500.0
PRELOADED = 30_000
SWITCH_EVERY_S = 4.0
BULK = 20_000


async def measure(folder: Path, servers: str) -> list[Result]:
    file = folder / "topology.toml"
    topology = base.write_topology(file, servers, "event")
    ensure_topics(topology)
    promote_new(topology, 0)
    stream = base.make_stream(base.STREAM)
    await base.produce(topology, stream.records(0, stream.values(0, PRELOADED), None))
    results: list[Result] = []
    at = PRELOADED
    async with base.counting(topology) as counts:
        with base.running_worker(file) as worker:
            await worker.wait_for("the preloaded", lambda: counts.count >= 2 * PRELOADED)

            async def phase(name: str) -> None:
                nonlocal at
                found = await base.measure_latency(topology, worker, counts, stream, at, RATE)
                at += base.played(RATE)
                results.extend({**each, "name": f"{name}_{each['name']}"} for each in found)
                results.append(figure(f"{name}_latency_max_ms", 1e3 * max(counts.latency_s), "ms"))

            await phase("calm")
            async with beside(lambda: switch_for_ever(topology)):
                await phase("switching")
            async with beside(lambda: reencode(topology, file, results)):
                await phase("reencoding")
                await worker.wait_for("the memos", lambda: any(each["name"] == "reencoding_s" for each in results))
            async with command(file, "retrain", "--now", "--dry-run"):
                await phase("training")
                count, bulk_began = counts.count, time.perf_counter()
                await base.produce(topology, stream.records(at, stream.values(at, at + BULK), None))
                await worker.wait_for("the bulk", lambda: counts.count >= count + 2 * BULK)
                seconds = time.perf_counter() - bulk_began
                results.append(figure("training_interactions_per_s", BULK / seconds, "interactions/s"))
            interactions = at + BULK
    check_outputs(topology, interactions)
    shape = {"edge_features": base.WIDTH, "hidden": base.WIDTH, "K": 20, "layers": topology.model.layers}
    machine = {"cpu": base.cpu_model(), "cores": len(os.sched_getaffinity(0)), "workers": 1, "stream": stream.name}
    return [{**each, "context": {**each["context"], **shape, **machine}} for each in results]


def check_outputs(topology: Topology, interactions: int) -> None:
    """Raises RuntimeError unless all embeddings came, and the models of each partition only went up."""
    seen: set[str] = set()
    newest: dict[tuple[int, int], int] = {}
    for record in read_topic(topology, topology.topics.embeddings):
        content = orjson.loads(record.value)
        interaction, side, _ = content["id"].rsplit("/", 2)
        if f"{interaction}/{side}" in seen:
            continue
        seen.add(f"{interaction}/{side}")
        owner = int(partitions_of([topology.node_key(content["kind"], content["node"])], topology.kafka.partitions)[0])
        place = record.partition, owner
        if content["model"] < newest.get(place, 0):
            raise RuntimeError(f"partition {owner} went back from model {newest[place]} to {content['model']}")
        newest[place] = content["model"]
    if len(seen) != 2 * interactions:
        raise RuntimeError(f"{len(seen):,} embeddings of {interactions:,} interactions")


def figure(name: str, value: float, unit: str, **context: object) -> Result:
    return {"name": name, "value": float(value), "unit": unit, "context": context}


def promote_new(topology: Topology, seed: int) -> int:
    """Untrained weights from a seed: what they say does not matter here, how long it takes is the same."""
    model = untrained(topology, seed)
    made = ReleaseStore(topology.releases.store).save(model, new_card(topology, model.config, seed=seed))
    return promote(topology, made).version


async def switch_for_ever(topology: Topology) -> None:
    for seed in range(1, 1_000):
        await asyncio.sleep(SWITCH_EVERY_S)
        await asyncio.to_thread(promote_new, topology, seed)


async def reencode(topology: Topology, topology_file: Path, results: list[Result]) -> None:
    """Begins with the part of the phase that counts."""
    await asyncio.sleep(base.LATENCY_WARM_UP_S)
    began = time.perf_counter()
    async with command(topology_file, "release", "reencode") as process:
        while process.poll() is None:
            await asyncio.sleep(0.05)
    record = reencoded_in(read_topic(topology, topology.topics.models))
    if record is None:
        raise RuntimeError("the re-encoding left no note")
    results.append(figure("reencoding_s", time.perf_counter() - began, "s", **record.model_dump()))


@asynccontextmanager
async def beside(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Something that goes on meanwhile, and is stopped at the end."""
    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()
        done = await asyncio.gather(task, return_exceptions=True)
        if isinstance(done[0], Exception):
            raise done[0]


@asynccontextmanager
async def command(topology_file: Path, *arguments: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A command with the priority of a retraining; stopped if it still runs at the end."""
    environment = {**os.environ, "STREAM_TGAT_TOPOLOGY": str(topology_file), "OMP_NUM_THREADS": "1"}
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    line = ["nice", "-n", "10", sys.executable, "-m", "faust", "-A", "stream_tgat", *arguments]
    with (topology_file.parent / "beside.log").open("ab") as log:
        process = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
        if process.poll() not in (None, 0):
            raise RuntimeError((topology_file.parent / "beside.log").read_text()[-2000:])
    finally:
        if process.poll() is None:
            process.terminate()
        await asyncio.to_thread(process.wait, 30)


def run() -> list[Result]:
    """All figures; the broker, the worker and everything they write are gone afterwards."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: base.CORES])
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        return asyncio.run(measure(Path(folder), broker.bootstrap_servers))


if __name__ == "__main__":
    for result in run():
        print(result["name"], round(result["value"], 1), result["unit"], np.round(result["context"].get("rate", 0)))
