"""The broker of the demo and of this suite: it serves, keeps its data, refuses misspelt topics, leaves no process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import broker as broker_module
import pytest
from broker import Broker, BrokerError, answers
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _runs(pid)


def test_broker_restarted_on_its_folder_keeps_its_records(tmp_path: Path) -> None:
    with Broker(tmp_path) as first:
        admin = KafkaAdminClient(bootstrap_servers=first.bootstrap_servers)
        admin.create_topics([NewTopic("kept", 1, 1)])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=first.bootstrap_servers)
        assert producer.send("kept", b"x").get(10).offset == 0
        producer.close()
        pid = first.pid
    assert pid is not None
    assert not _runs(pid)
    assert not (tmp_path / "broker.pid").exists()

    with Broker(tmp_path) as second:
        consumer = KafkaConsumer(bootstrap_servers=second.bootstrap_servers)
        partition = TopicPartition("kept", 0)
        assert consumer.end_offsets([partition]) == {partition: 1}
        consumer.close()


def test_topic_that_was_not_created_is_an_error(broker: Broker, topic_prefix: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=1500)
    with pytest.raises(KafkaError):
        producer.send(f"{topic_prefix}misspelt", b"x").get(5)
    producer.close()


def test_broker_takes_a_record_of_eight_megabytes(broker: Broker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}large"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_request_size=16 * 2**20)
    assert producer.send(topic, os.urandom(8 * 2**20)).get(20).offset == 0
    producer.close()


def test_parent_killed_takes_the_broker_with_it(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from broker import Broker\n"
        "broker = Broker(Path(sys.argv[1])); broker.start(); print(broker.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(broker_module.__file__).parent)},
    )
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        assert _runs(pid)
        parent.send_signal(signal.SIGKILL)
    assert _wait_until_gone(pid)


def test_command_line_starts_in_the_background_and_stops(tmp_path: Path) -> None:
    def broker_py(action: str) -> str:
        command = [sys.executable, broker_module.__file__, action, "--data", str(tmp_path), "--port", "0"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    address = broker_py("start")
    pid = int((tmp_path / "broker.pid").read_text())
    host, _, port = address.partition(":")
    assert answers(host, int(port))
    assert broker_py("stop") == f"stopped the broker on {tmp_path}"
    assert not _runs(pid)
    assert not answers(host, int(port))
    assert broker_py("stop") == f"no broker runs on {tmp_path}"


def test_given_port_that_is_taken_is_an_error_that_names_it(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=rf"port {broker.port}"):
        Broker(tmp_path, port=broker.port).start()


@pytest.mark.parametrize("program", ["java", "mvn"])
def test_missing_program_is_named_with_the_way_to_install_it(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else real(name))
    monkeypatch.setattr(broker_module, "CACHE", tmp_path / "cache")
    with pytest.raises(BrokerError, match=rf"`{program}` is missing.*apt-get install openjdk-17-jre-headless maven"):
        Broker(tmp_path / "data").start()


def test_java_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_432\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BrokerError, match=r"needs Java 17 or newer, and .*/java is Java 8"):
        Broker(tmp_path / "data").start()
