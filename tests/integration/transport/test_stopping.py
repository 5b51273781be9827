"""How a worker ends: cleanly when asked to, with a status when it must, and never half."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
import rocksdict
from broker import free_port

from tests.integration.transport.cluster import Cluster


def _addresses(port: int) -> set[str]:
    """The addresses (hexadecimal) on which this machine listens at a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    return {
        local.split(":")[0] for _, local, _, state, *_ in fields if local.endswith(f":{port:04X}") and state == "0A"
    }


def test_worker_that_is_asked_to_stop_closes_its_databases_and_commits(cluster: Cluster) -> None:
    cluster.produce("numbers", 0, 400)
    port = free_port()
    settings = {"web_tables_enabled": True}
    worker = cluster.start("a", settings=settings, worker_options=("--web-port", str(port)))
    worker.wait_for("AT END")
    assert _addresses(port) == {"0100007F"}, "the web server listens beyond loopback"
    pages = ("", "table/", "table/counts/", "table/counts/count/", "table/counts/no-such-key/", "router/counts/count/")
    assert [_status(f"http://127.0.0.1:{port}/{page}") for page in pages] == [200, 200, 200, 200, 404, 200]
    assert worker.terminate() == 0
    ends = cluster.ends("counter-counts-changelog")
    for partition in range(4):
        (path,) = worker.folder.glob(f"**/counts-{partition}.db")
        database = rocksdict.Rdict(str(path), options=rocksdict.Options(raw_mode=True))
        assert database.get(b"count") == b"100"
        assert int(database.get(b"__faust\0offset__")) == ends[partition] - 1
        database.close()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def test_error_in_an_agent_stops_the_worker_and_its_batch_is_read_again(cluster: Cluster) -> None:
    """Stock Faust acknowledges the event that raised, and goes on with the next."""
    cluster.produce("numbers", 0, 2000)
    failing = cluster.start("a", LIMIT="100", DO_AT="delivered:fail")
    assert failing.process.wait(30) not in (0, -9)
    assert "ZeroDivisionError: delivered" in failing.text()
    assert cluster.counted() < 2000
    worker = cluster.start("a")
    worker.wait_for("AT END {0: 500, 1: 500, 2: 500, 3: 500}")
    assert worker.terminate() == 0


@pytest.mark.parametrize(("how", "said"), [("wait", "records wait: the worker stops"), ("hang", "event loop hangs")])
def test_worker_that_does_nothing_although_records_wait_exits(cluster: Cluster, how: str, said: str) -> None:
    cluster.produce("numbers", 0, 2000)
    grace = {"GRACE_S": "1"}
    worker = cluster.start("a", transport={"stall_s": 2.0}, LIMIT="100", DO_AT=f"delivered:{how}", **grace)
    assert worker.process.wait(30) not in (0, -9)
    assert said in worker.text()


def test_commit_on_top_of_a_foreign_write_stops_the_worker(cluster: Cluster) -> None:
    cluster.produce("numbers", 0, 400)
    worker = cluster.start("a")
    worker.wait_for("AT END")
    cluster.produce("counter-counts-changelog", 0, 4, key=b"foreign")
    cluster.produce("numbers", 400, 800)
    assert worker.process.wait(30) not in (0, -9)
    assert "appended at offset" in worker.text()
    assert "another worker writes to it too" in worker.text()
