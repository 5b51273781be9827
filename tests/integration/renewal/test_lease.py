"""Against the real broker: one process has the lease, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker import Broker

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.renewal import lease
from stream_tgat.renewal.lease import HeldError, Lease, holder_of
from stream_tgat.topology import Kafka, Topology

#: The shortest that brokers allow by default.
SESSION_S = 6.0

HOLDER = """
import sys, time
from stream_tgat.renewal.lease import Lease, LostError
from stream_tgat.topology import Topology
with Lease(Topology.model_validate_json(sys.argv[1], strict=False), float(sys.argv[2])) as held:
    print("has it", flush=True)
    try:
        while True:
            held.check()
            time.sleep(0.1)
    except LostError as error:
        print("lost it:", error, flush=True)
"""


@contextmanager
def holder(topology: Topology, session_s: float = SESSION_S) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lease."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, topology.model_dump_json(include={"name", "kafka"}), str(session_s)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "has it\n"
            yield process
        finally:
            process.kill()


def take_when_free(topology: Topology, timeout_s: float = 40.0) -> float:
    """Wait until the lease can be had, and give it back; how long that took."""
    began = time.monotonic()
    while time.monotonic() - began < timeout_s:
        try:
            with Lease(topology, SESSION_S) as held:
                held.check()
                return time.monotonic() - began
        except HeldError:
            time.sleep(0.2)
    pytest.fail("it was never free")


def test_second_is_told_who_has_it_and_gets_it_afterwards(topology: Topology) -> None:
    ensure_topics(topology)
    assert holder_of(topology) is None
    with Lease(topology, SESSION_S) as held:
        name = holder_of(topology)
        assert name is not None
        assert name.endswith(f"/{os.getpid()}")
        with pytest.raises(HeldError, match=name), Lease(topology, SESSION_S):
            pytest.fail("two have it")
        held.check()
    assert holder_of(topology) is None
    with Lease(topology, SESSION_S) as held:
        held.check()


def test_of_many_that_ask_at_once_one_has_it_at_a_time(topology: Topology) -> None:
    ensure_topics(topology)
    inside, most, had = [0], [0], [0]
    lock = threading.Lock()

    def try_it(_: int) -> None:
        try:
            with Lease(topology, SESSION_S) as held:
                for _ in range(20):
                    held.check()
                    with lock:
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                    time.sleep(0.1)
                    with lock:
                        inside[0] -= 1
                had[0] += 1
        except HeldError:
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(try_it, range(4)))
    assert most[0] == 1
    assert had[0] >= 1


def test_killed_holder_loses_it_to_the_next(topology: Topology) -> None:
    ensure_topics(topology)
    with holder(topology) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(HeldError), Lease(topology, SESSION_S):
            pytest.fail("the brokers cannot know yet")
        take_when_free(topology)


def test_holder_that_slept_past_its_session_knows_that_it_lost_it(topology: Topology) -> None:
    ensure_topics(topology)
    with holder(topology) as process:
        process.send_signal(signal.SIGSTOP)
        take_when_free(topology)
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("lost it: the lease of the group")
        assert process.wait(30) == 0


def test_holder_keeps_it_while_the_brokers_are_killed_and_come_back(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        topology = Topology(name="test", kafka=Kafka(bootstrap_servers=broker.bootstrap_servers))
        ensure_topics(topology)
        with holder(topology, lease.SESSION_S) as process:
            name = holder_of(topology)
            assert name is not None
            broker.kill()
            broker.start()
            deadline = time.monotonic() + 2 * SESSION_S
            while time.monotonic() < deadline:
                assert process.poll() is None, "it was lost"
                time.sleep(0.1)
            assert holder_of(topology) == name
