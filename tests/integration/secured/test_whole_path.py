"""From topics to a retrained model through a broker that lets nobody in without a login, or without a certificate."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import orjson
import pytest
from broker import Broker
from click.testing import CliRunner

from stream_tgat import brokers
from stream_tgat.commands import commands
from stream_tgat.topology import KEY_VARIABLE, LOGIN_VARIABLE, Topology, load_topology
from tests.integration.secured.certificates import KEY_PASSWORD, Certificates
from tests.integration.secured.ways import PASSWORD, REPOSITORY, as_toml, by_certificate, by_login

TOPOLOGY = """
name = "{name}"
[kafka]
{access}
topic_prefix = "{prefix}"
partitions = 2
[model]
neighbours = 3
candidates = 5
hidden = 8
time_dim = 4
[serving]
device = "cpu"
[training]
epochs = 1
[retrain]
when_worse_than_rules = "promote"
[releases]
store = "{folder}/releases"
"""
COUNT = 300


class Deployment:
    """A topology with its commands, and a worker of its own."""

    def __init__(self, access: dict[str, object], prefix: str, folder: Path, name: str = "secured") -> None:
        self.folder, self.file = folder, folder / "secured.toml"
        self.file.write_text(TOPOLOGY.format(access=as_toml(access), prefix=prefix, folder=folder, name=name))
        self.topology: Topology = load_topology(self.file)
        self.commands: dict[str | None, click.Command] = {each.name: each for each in commands(self.topology)}
        self.log_file = folder / "worker.log"

    def run(self, name: str, *arguments: str) -> str:
        done = CliRunner(env={"COLUMNS": "160"}).invoke(self.commands[name], list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def produce(self) -> None:
        producer = brokers.producer(self.topology.kafka)
        now = time.time() - 2 * COUNT
        for n in range(COUNT):
            value = orjson.dumps({"user": f"u{n % 17}", "item": f"i{n % 17 % 5}", "timestamp": now + n})
            producer.send(self.topology.topics.interactions, value=value, partition=n % 2)
        producer.flush()
        producer.close()

    def worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "faust", "-A", "stream_tgat", "-D", str(self.folder / "data"), "-l", "debug"]
        with self.log_file.open("wb") as log:
            return subprocess.Popen(
                [*command, "worker", "--without-web"],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "STREAM_TGAT_TOPOLOGY": str(self.file)},
            )

    def said(self) -> str:
        return self.log_file.read_text(errors="replace")


@pytest.fixture
def deployment(
    request: pytest.FixtureRequest,
    broker: Broker,
    certificates: Certificates,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Deployment]:
    monkeypatch.setenv(LOGIN_VARIABLE, PASSWORD)
    monkeypatch.setenv(KEY_VARIABLE, KEY_PASSWORD)
    return Deployment(request.param(broker, certificates), topic_prefix, tmp_path)


@pytest.mark.parametrize("deployment", [by_login, by_certificate], indirect=True)
def test_events_become_embeddings(deployment: Deployment) -> None:
    assert "created" in deployment.run("topics", "create")
    assert "version 0" in deployment.run("release", "init")
    deployment.produce()
    worker = deployment.worker()
    try:
        shown = deployment.run("tail", "embeddings", "--from-start", "--json", "--limit", str(2 * COUNT))
    finally:
        worker.terminate()
        worker.wait(30)
    assert len({orjson.loads(line)["id"] for line in shown.splitlines()}) == 2 * COUNT
    for text in (deployment.said(), shown):
        assert "battery" not in text
        assert "key words" not in text
    assert worker.returncode == 0, deployment.said()[-3000:]


@pytest.mark.parametrize("deployment", [by_login], indirect=True)
def test_model_is_retrained_and_promoted(deployment: Deployment) -> None:
    deployment.run("topics", "create")
    deployment.run("release", "init")
    deployment.produce()
    assert "Promoted, and serves from now on as version 1" in deployment.run("retrain", "--now")
    assert "version 1" in deployment.run("release", "list")
    assert deployment.run("status", "--fresh")
    cards = [file.read_text() for file in deployment.folder.rglob("*.json")]
    # The untrained one, the one that was measured, and the one that learnt from what that was measured on and serves.
    assert len(cards) == 3
    assert not any("battery" in card or "localhost" in card for card in cards)


@pytest.mark.parametrize("deployment", [by_login], indirect=True)
def test_worker_with_a_wrong_password_stops_and_says_so(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGIN_VARIABLE, "staple battery")
    assert deployment.worker().wait(200) == 1  # on a crowded machine a start takes a minute
    assert "Error: the broker at localhost:" in deployment.said()
    assert "refuses the login of 'ann' by SCRAM-SHA-512" in deployment.said()
    assert "Traceback" not in deployment.said()
    assert "battery" not in deployment.said()
