"""A model that took over in the middle gives, once re-encoded, what it would give had it served from the beginning."""

from __future__ import annotations

import os
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broker import Broker

from stream_tgat.nn.model import Model
from stream_tgat.renewal.lease import holder_of
from stream_tgat.renewal.reencoding import ReencodingCallbacks, SupersededError, owed, reencode
from stream_tgat.training.kafka_log import read_topic
from stream_tgat.training.promotion import promote, promotions, reencoded_in
from stream_tgat.training.registry import ReleaseStore
from stream_tgat.wire import ReencodedRecord
from tests.integration.equality.checks import check_latest, engine_on, read_changelog
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import TOLERANCE, Oracle
from tests.integration.equality.scenarios import deploy, make_oracle, start
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log, shifted
from tests.integration.equality.test_switch import make_release, wait_until_serving
from tests.integration.equality.workers import Spawned
from tests.kept_rows import kept_rows

# Few after the switch, so that rows of before are still kept when they are made anew.
SIZES = (500, 25, 25, 150)


class Renewed:
    """A deployment whose model was replaced after the first part of its log."""

    def __init__(self, servers: str, folder: Path, prefix: str, layers: int, more: str = "") -> None:
        self.parts = [shifted(random_log(size, seed=60 + part).records, part) for part, size in enumerate(SIZES)]
        log = random_log(500, seed=60).with_records([record for part in self.parts for record in part])
        settings = Settings(layers=layers, activity=False, more=more)
        self.deployment, _ = deploy(servers, folder, prefix, log, settings)
        self.model: Model
        self.version = -1

    def produce(self, part: int) -> None:
        self.deployment.produce(self.parts[part])

    def wait(self, part: int) -> None:
        """Until the embeddings of all parts up to this one are out."""
        counted = make_oracle(self.deployment)
        counted.set_features(self.deployment.log.nodes)
        for each in self.parts[: part + 1]:
            counted.take(each)
        self.deployment.wait_for(len(counted.embeddings))
        self.deployment.settle()

    def promote(self, seed: int) -> None:
        promote(self.deployment.topology, make_release(self.deployment, seed))
        self.adopt()
        wait_until_serving(self.deployment, [w for w in self.deployment.workers if w.running], self.version)

    def adopt(self) -> None:
        """Take the newest model for the one that all is compared with."""
        newest = promotions(self.deployment.topology)[-1]
        self.version = newest.version
        self.model, _ = ReleaseStore(self.deployment.topology.releases.store).load(newest.record.release)

    def oracle(self, parts: int) -> Oracle:
        """One that has known no other weights, after so many parts."""
        fresh = make_oracle(self.deployment)
        fresh = Oracle(fresh.topology, self.model, self.version, fresh.policy)
        fresh.set_features(self.deployment.log.nodes)
        for part in self.parts[:parts]:
            fresh.take(part)
        return fresh

    def furthest(self, parts: int) -> float:
        """How far peer embeddings in the state of the workers are from the oracle's; rows are the same."""
        changelog, _ = read_changelog(self.deployment)
        engine = engine_on(self.deployment, self.model, self.version, changelog)
        partitions, largest = self.deployment.topology.kafka.partitions, 0.0
        for node, wanted in self.oracle(parts).neighbourhoods().items():
            found = kept_rows(engine, zlib.crc32(node) % partitions, node)
            assert found.interaction.tolist() == wanted.interaction.tolist(), node
            for one, other in zip(found.peer_embeddings[1:], wanted.peer_embeddings[1:], strict=True):
                largest = max(largest, float(np.abs(one - other).max(initial=0.0)))
        return largest

    def check_last_part(self) -> float:
        """The embeddings of the last part are those of a model that has always served; how close they are."""
        before, wanted = self.oracle(len(SIZES) - 1), self.oracle(len(SIZES))
        newest = wanted.embeddings.keys() - before.embeddings.keys()
        assert len(newest) >= SIZES[-1]
        found, furthest = self.deployment.outputs.embeddings, 0.0
        for interaction, side in newest:
            came = np.array(found[f"{interaction}/{side}/{self.version}"]["embedding"], np.float32)
            furthest = max(furthest, float(np.abs(came - wanted.embeddings[interaction, side].embedding).max()))
        assert furthest <= TOLERANCE
        return furthest

    def noted(self) -> ReencodedRecord | None:
        topology = self.deployment.topology
        return reencoded_in(read_topic(topology, topology.topics.models))


class Command:
    """`release reencode`, as an operator runs it."""

    def __init__(self, deployment: Deployment, rate: int) -> None:
        self.log_file = deployment.folder / "reencode.log"
        command = ["faust", "-A", "stream_tgat", "release", "reencode", "--rate", str(rate)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "STREAM_TGAT_TOPOLOGY": str(deployment.topology_file)}
        environment["KAFKA_BOOTSTRAP_SERVERS"] = deployment.servers
        self.process = Spawned(command, environment, self.log_file)

    def said(self) -> str:
        return self.log_file.read_text()


@pytest.mark.parametrize("layers", [2, 3])
def test_embeddings_after_re_encoding_are_those_of_a_model_that_served_from_the_beginning(
    broker: Broker, topic_prefix: str, tmp_path: Path, layers: int
) -> None:
    renewed = Renewed(broker.bootstrap_servers, tmp_path, topic_prefix, layers)
    deployment = renewed.deployment
    with deployment:
        for name in ("a", "b"):
            start(deployment, name)
        renewed.produce(0)
        renewed.wait(0)
        assert owed(deployment.topology) is None, "the first model finds no peer embeddings of others"
        renewed.promote(71)
        renewed.produce(1)
        renewed.wait(1)
        assert renewed.furthest(2) > 100 * TOLERANCE
        ready = owed(deployment.topology)
        assert ready is not None
        # Interactions arrive while it is under way: after the log was read, before the peer embeddings are there.
        stages: list[str] = []

        def on_stage(what: str) -> None:
            stages.append(what)
            if what == "sending peer embeddings":
                renewed.produce(2)
                renewed.wait(2)

        record = reencode(deployment.topology, ready, told=ReencodingCallbacks(on_stage=on_stage))
        assert stages.count("sending what rested on older peer embeddings") == layers - 2
        assert (record.version, record.inexact) == (renewed.version, 0)
        assert record.peer_embeddings > 0
        assert renewed.noted() == record
        assert owed(deployment.topology) is None
        deployment.settle()
        assert renewed.furthest(3) <= TOLERANCE
        renewed.produce(3)
        renewed.wait(3)
        deployment.stop()
        renewed.check_last_part()
        assert renewed.furthest(4) <= TOLERANCE
        check_latest(deployment, renewed.oracle(4))


def test_kills_of_a_worker_and_of_the_re_encoding_cost_only_time(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    renewed = Renewed(broker.bootstrap_servers, tmp_path, topic_prefix, 2)
    deployment = renewed.deployment
    with deployment:
        first = start(deployment)
        start(deployment, "b")
        renewed.produce(0)
        renewed.wait(0)
        renewed.promote(72)
        renewed.produce(1)
        renewed.wait(1)
        # A few peer embeddings a second, so that it is under way for long.
        slow = Command(deployment, 20)
        half = renewed.furthest(2)
        topic = deployment.topology.topics.propagation
        before = sum(1 for _ in read_topic(deployment.topology, topic))
        _wait(lambda: sum(1 for _ in read_topic(deployment.topology, topic)) > before, slow)
        first.kill()
        slow.process.signal(signal.SIGKILL)
        slow.process.wait()
        assert renewed.noted() is None
        assert half > 100 * TOLERANCE
        renewed.produce(2)
        # The brokers know after a while that nobody is at it any more; until then the next one is told who is.
        deadline = time.monotonic() + 60
        while holder_of(deployment.topology) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        again = Command(deployment, 100_000)
        start(deployment, "c")
        assert again.process.wait(120) == 0, again.said()
        assert f"peer embeddings of model {renewed.version}" in again.said()
        note = renewed.noted()
        assert note is not None
        assert note.version == renewed.version
        renewed.wait(2)
        renewed.produce(3)
        renewed.wait(3)
        deployment.stop()
        assert renewed.furthest(4) <= TOLERANCE
        renewed.check_last_part()


def test_a_newer_model_ends_the_re_encoding_of_the_one_before(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    renewed = Renewed(broker.bootstrap_servers, tmp_path, topic_prefix, 2)
    deployment = renewed.deployment
    with deployment:
        deployment.start("a")
        renewed.produce(0)
        renewed.wait(0)
        renewed.promote(73)
        ready = owed(deployment.topology)
        assert ready is not None
        promoter: list[threading.Thread] = []

        def on_stage(what: str) -> None:
            if what == "sending peer embeddings":
                promoter.append(threading.Thread(target=renewed.promote, args=(74,)))
                promoter[0].start()

        with pytest.raises(SupersededError, match=r"model \d+ has taken over from model \d+"):
            reencode(deployment.topology, ready, peer_embeddings_per_s=10, told=ReencodingCallbacks(on_stage=on_stage))
        promoter[0].join()
        assert renewed.noted() is None
        newer = owed(deployment.topology)
        assert newer is not None
        assert newer.version == renewed.version
        deployment.stop()


def _wait(condition: Callable[[], bool], command: Command, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert command.process.poll() is None, command.said()
        assert time.monotonic() < deadline, command.said()
        time.sleep(0.1)
