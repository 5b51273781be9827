"""Brokers that are away: a worker waits, says so in few lines and where it is asked, and goes on when they are back."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker import Broker, free_port

from tests.integration.equality.checks import assert_equal
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import FAULTY, deploy
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker

SESSION_S = 6
# Beside the banner and what every start says.
LINES_OF_AN_OUTAGE = 60


def test_worker_outlives_brokers_that_are_away_at_its_start_die_and_hang(tmp_path: Path, topic_prefix: str) -> None:
    log = random_log(900, seed=31, users=40, items=30)
    third = len(log.records) // 3
    port = free_port()
    # So that a killed node need not wait for its own place.
    with Broker(tmp_path / "broker", settings={"broker.session.timeout.ms": 6000}) as broker:
        deployment, oracle = deploy(broker.bootstrap_servers, tmp_path, topic_prefix, log, Settings(micro_batch=16))
        with deployment:
            oracle.take(log.records)
            deployment.reconnect()
            broker.kill()
            # Slow, so that each outage comes in the middle of its work.
            worker = deployment.start("a", FAULTY, web_port=port, SESSION_S=str(SESSION_S), SLOW_OUTPUTS_S="0.1")
            _wait_until(worker, lambda: "(Connection refused): waiting for 0 s" in worker.said())
            status, content = _get(port, "/readyz")
            assert (status, content["ready"]) == (503, False)
            assert "no Kafka broker answers at" in content["reason"]
            assert _get(port, "/")[0] == 200, "a supervisor would take it for dead"
            broker.start()
            _wait_until(worker, lambda: _get(port, "/readyz") == (200, {"ready": True}))

            deployment.produce(log.records[:third])
            deployment.wait_until("it is at work", lambda: len(deployment.outputs.embeddings) > 20)
            deployment.reconnect()
            broker.kill()
            _outlast(worker, port, times=1)
            broker.start()
            deployment.produce(log.records[third : 2 * third])
            deployment.wait_until("it works again", lambda: len(deployment.outputs.embeddings) > 2 * third + 20)

            deployment.assert_fewer_than(4 * third)
            deployment.reconnect()
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGSTOP)
            _outlast(worker, port, times=2)
            os.kill(broker.pid, signal.SIGCONT)
            deployment.produce(log.records[2 * third :])
            deployment.wait_for(len(oracle.embeddings))
            assert worker.running, worker.said()[-3000:]
            deployment.stop()
            assert worker.wait_for_end() == 0
            assert_equal(deployment, oracle)


def test_worker_that_waits_ends_on_a_signal_and_where_its_port_is_taken_or_its_patience_is_over(
    tmp_path: Path, topic_prefix: str
) -> None:
    port = free_port()
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


def _outlast(worker: Worker, port: int, times: int) -> None:
    """Wait until the worker has begun anew so many times for want of a broker, and look at what it says meanwhile."""
    before = worker.said().count("\n")
    _wait_until(worker, lambda: _get(port, "/readyz")[0] == 503)
    _wait_until(worker, lambda: worker.said().count("The worker begins anew: ") == times)
    _wait_until(worker, lambda: worker.said().rpartition("begins anew")[2].count(": waiting for ") == 2)
    assert worker.said().count("\n") - before < LINES_OF_AN_OUTAGE, worker.said()
    assert _get(port, "/readyz")[0] == 503


def _wait_until(worker: Worker, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert worker.running, worker.said()[-3000:]
        assert time.monotonic() < deadline, worker.said()[-3000:]
        time.sleep(0.1)


def _get(port: int, path: str) -> tuple[int, Any]:
    """Status and content of a page; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        return int(error.code), json.load(error)
    except OSError:
        return 0, None
