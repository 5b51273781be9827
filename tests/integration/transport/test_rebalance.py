"""Workers come, go and die; every record is counted exactly once and sent at least once."""

from __future__ import annotations

import re
import signal
import threading
import time

from tests.integration.transport.cluster import Cluster, Worker, number_value, wait_until

QUICK = {"broker_session_timeout": 3.0, "broker_heartbeat_interval": 0.5}


def _numbers(count: int) -> set[bytes]:
    return {number_value(number) for number in range(count)}


def recovered(worker: Worker) -> list[int]:
    """The partitions that a worker has recovered last."""
    said = re.findall(r"RECOVERED \[([\d, ]*)\]", worker.text())
    return [int(number) for number in said[-1].split(",") if number] if said else []


def shared(one: list[int], other: list[int]) -> bool:
    """Whether all four partitions are recovered, some by each."""
    return bool(one and other) and sorted(one + other) == [0, 1, 2, 3]


def test_records_are_counted_exactly_through_joins_leaves_and_kills(cluster: Cluster) -> None:
    """On stock Faust a plain application lost 1,134 of 28,000 records over a few graceful joins."""
    count = 4000
    first = cluster.start("a", settings=QUICK)
    first.wait_for("Worker ready")
    producing = threading.Thread(target=cluster.produce, args=("numbers", 0, count), kwargs={"per_second": 280})
    producing.start()
    for leave in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        second = cluster.start("b", settings=QUICK)
        second.wait_for("Worker ready")
        time.sleep(0.5)
        second.signal(leave)
        assert second.process.wait(20) == (-signal.SIGKILL if leave == signal.SIGKILL else 0), second.text()[-3000:]
    producing.join()
    wait_until(lambda: cluster.counted() >= count, 20, first.text, every_s=0.5)
    assert first.terminate() == 0
    assert cluster.counted() == count
    rows = [key for state in cluster.state().values() for key in state if key.startswith(b"row")]
    assert {key[3:] for key in rows} == _numbers(count)
    assert len(rows) == count
    assert set(cluster.values("outputs")) == _numbers(count)


def test_kills_between_the_steps_of_a_commit_lose_and_repeat_nothing(cluster: Cluster) -> None:
    count = 5000
    cluster.produce("numbers", 0, count)
    for disk, place in (("a", "delivered"), ("a", "appended"), ("b", "committed"), ("b", "appended")):
        worker = cluster.start(disk, settings=QUICK, LIMIT="200", DO_AT=f"{place}:kill")
        assert worker.process.wait(30) == -signal.SIGKILL
    worker = cluster.start("a", settings=QUICK)
    wait_until(lambda: cluster.counted() >= count, 20, worker.text, every_s=0.3)
    assert worker.terminate() == 0
    assert cluster.counted() == count
    outputs = cluster.values("outputs")
    assert set(outputs) == _numbers(count)
    assert sum(outputs.values()) > count, "no worker was killed between outputs and commit"


def test_standby_takes_over_and_the_count_goes_on(cluster: Cluster) -> None:
    settings = {**QUICK, "table_standby_replicas": 1}
    workers = [cluster.start(name, settings=settings) for name in "ab"]
    wait_until(lambda: shared(recovered(workers[0]), recovered(workers[1])), 30, workers[1].text)
    cluster.produce("numbers", 0, 2000)
    wait_until(lambda: cluster.counted() == 2000, 20, workers[0].text, every_s=0.3)
    workers[0].kill()
    cluster.produce("numbers", 2000, 3000)
    wait_until(lambda: cluster.counted() >= 3000, 20, workers[1].text, every_s=0.3)
    assert workers[1].terminate() == 0
    assert cluster.counted() == 3000


def test_worker_that_slept_past_its_session_commits_nothing_when_it_wakes(cluster: Cluster) -> None:
    """It is stopped after its outputs were sent and before it commits; meanwhile another worker takes over."""
    count = 3000
    cluster.produce("numbers", 0, count)
    sleeper = cluster.start("a", settings=QUICK, LIMIT="200", DO_AT="delivered:stop")
    wait_until(lambda: "Worker ready" in sleeper.text(), 20)
    time.sleep(1.0)
    other = cluster.start("b", settings=QUICK)
    wait_until(lambda: cluster.counted() >= count, 30, other.text, every_s=0.3)
    assert cluster.counted() == count
    changes = cluster.ends("counter-counts-changelog")
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_for("FENCED")
    time.sleep(0.5)
    assert cluster.ends("counter-counts-changelog") == changes
    cluster.produce("numbers", count, count + 100)
    wait_until(lambda: cluster.counted() >= count + 100, 30, other.text, every_s=0.3)
    assert cluster.counted() == count + 100
