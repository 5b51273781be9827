"""Brokers that are away: a worker waits, says so in few lines, and heeds signals meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.equality.harness import Deployment, Worker
from tests.integration.equality.streams import random_log


def test_worker_that_waits_ends_on_a_signal_and_where_its_port_is_taken_or_its_patience_is_over(
    tmp_path: Path, topic_prefix: str
) -> None:
    port = _free_port()
    patient = Deployment("127.0.0.1:1", tmp_path / "patient", topic_prefix, random_log(1, seed=1))
    patient.folder.mkdir(parents=True, exist_ok=True)
    with patient:
        worker = patient.start("a", web_port=port)
        _wait_until(worker, lambda: ": waiting for " in worker.said())
        second = patient.start("b", web_port=port)
        assert second.wait_for_end() == 1
        assert f"Error: the web page cannot listen at 127.0.0.1:{port}" in second.said()
        assert "Traceback" not in second.said()
        worker.terminate()
        assert worker.wait_for_end(10.0) == 0
        assert "Traceback" not in worker.said()

        patient.topology_file.write_text(
            patient.topology_file.read_text().replace("[kafka]", "[kafka]\nwait_for_brokers_s = 1.0")
        )
        third = patient.start("c", web_port=port)
        assert third.wait_for_end() == 1
        assert third.said().splitlines()[-1].startswith("Error: no Kafka broker answers at 127.0.0.1:1 (")


def _wait_until(worker: Worker, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert worker.running, worker.said()[-3000:]
        assert time.monotonic() < deadline, worker.said()[-3000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
