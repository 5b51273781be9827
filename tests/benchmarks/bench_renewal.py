"""What the stream feels of its model being renewed, at 500/s: switches, re-encoding, and training beside it.

What runs beside is the command that an operator would run. In the end all embeddings must have come, and the models of
each partition must only have gone up.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
from figures import Figure
from path import Deployment, environment, faust, path

from stream_tgat.topology import Topology, load_topology
from stream_tgat.training.kafka_log import read_topic
from stream_tgat.training.promotion import reencoded_in
from stream_tgat.wire.packets import partitions_of

RATE = 500.0
PRELOADED = 30_000
SECONDS, WARM_UP_S = 10.0, 4.0
SWITCH_EVERY_S = 4.0
BULK = 20_000


def run() -> list[Figure]:
    figures: list[Figure] = []
    with path(PRELOADED + BULK + int(4 * RATE * (SECONDS + WARM_UP_S))) as deployment:
        topology = load_topology(deployment.file)
        deployment.preload(PRELOADED)

        def phase(name: str) -> None:
            live = deployment.live(RATE, SECONDS, WARM_UP_S)
            figures.extend(live.figures(f"renewal_{name}", deployment.context()))
            figures.append(Figure(f"renewal_{name}_max_ms", live.percentile_ms(100), "ms"))

        with deployment.working():
            deployment.wait_for_all()
            phase("calm")
            with switching(deployment):
                phase("switching")
            began = time.perf_counter()
            with beside(deployment, "release", "reencode") as process:
                phase("reencoding")
                deployment.wait_for("the peer embeddings", lambda: process.poll() is not None)
            record = reencoded_in(read_topic(topology, topology.topics.models))
            if record is None:
                raise RuntimeError("the re-encoding left no note")
            figures.append(
                Figure("renewal_reencoding_s", time.perf_counter() - began, "s", context=record.model_dump())
            )
            with beside(deployment, "retrain", "--now", "--dry-run"):
                phase("training")
                bulk_began = time.perf_counter()
                deployment.preload(BULK)
                deployment.wait_for_all()
                rate = BULK / (time.perf_counter() - bulk_began)
                figures.append(Figure("renewal_training_bulk_per_s", rate, "/s", more_is_better=True))
        check_outputs(topology, deployment.at)
    return figures


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


@contextmanager
def switching(deployment: Deployment) -> Iterator[None]:
    """Another model every few seconds: untrained weights, since what they say does not matter here."""
    done, problems = threading.Event(), []

    def switch() -> None:
        seed = 1
        while not done.wait(SWITCH_EVERY_S):
            try:
                faust(deployment.file, f"release init --seed {seed} --force")
            except RuntimeError as problem:
                problems.append(problem)
                return
            seed += 1

    thread = threading.Thread(target=switch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if problems:
        raise problems[0]


@contextmanager
def beside(deployment: Deployment, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command with the priority of a retraining; stopped if it still runs at the end."""
    log_file = Path(deployment.file).parent / "beside.log"
    line = ["nice", "-n", "10", sys.executable, "-m", "faust", "-A", "stream_tgat", *arguments]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            line,
            env={**environment(deployment.file), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
        if process.poll() not in (None, 0):
            raise RuntimeError(log_file.read_text()[-2000:])
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(30)
