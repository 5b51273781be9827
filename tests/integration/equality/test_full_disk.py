"""A disk that fills up while a worker runs: it stops with a line, and with room again all comes that the oracle has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.equality.checks import finish
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import Deployed, start
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker


@contextmanager
def _disk(folder: Path, size: int) -> Iterator[None]:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _assert_stopped_for_want_of_room(deployment: Deployment, worker: Worker) -> None:
    assert worker.wait_for_end() == 1
    said = worker.said()
    assert said.splitlines()[-1].startswith(f"Error: The disk of {deployment.data('a')}"), said[-3000:]
    assert "Make room there, and start again: nothing is lost." in said.splitlines()[-1]
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("reserve_bytes", "room", "interactions"),
    [(0, 1_500_000, 5000), (4 << 20, 600_000, 1000)],
    ids=["RocksDB finds out", "seen in time"],
)
def test_worker_on_a_disk_that_fills_up_stops_with_a_line_and_loses_nothing(
    deployed: Deployed, reserve_bytes: int, room: int, interactions: int
) -> None:
    log = random_log(interactions, seed=18, users=200)
    deployment, oracle = deployed(log, Settings(micro_batch=128))

    def start_worker() -> Worker:
        return start(deployment, RESERVE_BYTES=str(reserve_bytes))

    with _disk(deployment.data("a"), reserve_bytes + room):
        deployment.produce()
        _assert_stopped_for_want_of_room(deployment, start_worker())
        deployment.read()
        assert 0 < len(deployment.outputs.embeddings) < len(oracle.embeddings)
        _assert_stopped_for_want_of_room(deployment, start_worker())
        subprocess.run(["mount", "-o", f"remount,size={1 << 30}", deployment.data("a")], check=True)
        start_worker()
        finish(deployment, oracle)
