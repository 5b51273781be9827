"""Topics that are deleted and created again under a deployment: it stops with the reason and the ways on."""

from __future__ import annotations

import time

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_tgat.commands.topics import ensure_topics
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker

EVENTS = 100


def _make_anew(deployment: Deployment, topic: str) -> None:
    """Delete a topic and create it as the deployment would, both while nobody looks."""
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)
    try:
        admin.delete_topics([topic])
        deadline = time.monotonic() + 20
        while topic not in ensure_topics(deployment.topology).created:
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.1)
    except KafkaError as problem:
        raise AssertionError(f"{topic} could not be made anew: {problem!r}") from problem
    finally:
        admin.close()
    deployment.reconnect()


def _refusal(deployment: Deployment, worker: Worker, sentence: str) -> None:
    """The worker ends by itself with this reason; the last that it says is one line of it."""
    assert worker.wait_for_end() not in (0, -9)
    said = worker.said()
    assert sentence in said, said[-4000:]
    assert sentence in said.rstrip().splitlines()[-1], said[-4000:]
    assert "LostDataError: " not in said, said[-4000:]  # as a traceback ends
    assert "replay the log" in said or "start the worker again" in said


def test_interactions_made_anew_between_two_starts_stop_the_worker(deployed: Deployed) -> None:
    """With more records than before: their first ones would be taken for those that are known."""
    log = random_log(EVENTS, seed=7)
    deployment, _ = deployed(log, Settings(clock="wall"))
    deployment.produce(log.records[: EVENTS // 2])
    deployment.start("a")
    deployment.wait_for(EVENTS // 2)
    deployment.stop()
    known = len(deployment.outputs.embeddings)
    topic = deployment.topology.topics.interactions
    _make_anew(deployment, topic)
    deployment.produce()
    told = f"The topic '{topic}' was deleted and created"
    _refusal(deployment, deployment.start("a"), told)
    # Nor does another disk make a difference: it stands in the state itself.
    _refusal(deployment, deployment.start("b"), told)
    deployment.read()
    assert len(deployment.outputs.embeddings) == known


@pytest.mark.parametrize("which", ["interactions", "propagation"])
def test_topic_made_anew_while_a_worker_reads_it_stops_the_worker(deployed: Deployed, which: str) -> None:
    log = random_log(EVENTS, seed=7)
    deployment, _ = deployed(log, Settings(clock="wall"))
    deployment.produce(log.records[: EVENTS // 2])
    worker = deployment.start("a")
    deployment.wait_for(EVENTS // 2)
    topic = getattr(deployment.topology.topics, which)
    worker.expected_to_end = True
    _make_anew(deployment, topic)
    deployment.produce()
    assert worker.wait_for_end() not in (0, -9)
    _refusal(deployment, deployment.start("a"), f"The topic '{topic}' was deleted and created again")


def test_changelog_made_anew_under_a_disk_is_one_line_with_the_way_on(deployed: Deployed) -> None:
    deployment, _ = deployed(random_log(EVENTS, seed=7), Settings(clock="wall"))
    deployment.produce()
    deployment.start("a")
    deployment.wait_for(EVENTS)
    deployment.stop()
    _make_anew(deployment, deployment.topology.changelog)
    worker = deployment.start("a")
    _refusal(deployment, worker, "is a copy of another changelog than")
    assert worker.said().count("\n") < 20, worker.said()
