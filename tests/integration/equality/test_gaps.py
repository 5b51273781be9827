"""Records that are deleted before they are read: a worker stops with the reason, and hands on nothing behind them."""

from __future__ import annotations

import re
import signal

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from tests.integration.equality.deployment import Deployment
from tests.integration.equality.received import records_of
from tests.integration.equality.scenarios import Deployed
from tests.integration.equality.streams import random_log
from tests.integration.equality.workers import Worker

EVENTS = 60


def _delete_below(deployment: Deployment, topic: str, offset: int) -> None:
    """Delete the records of partition 0, as retention does."""
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)

    def clean_up_by(policy: str) -> None:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": policy})])

    # Kafka does not let anybody delete records of a topic that is only compacted.
    is_compacted = topic in {deployment.topology.topics.nodes, deployment.topology.changelog}
    try:
        if is_compacted:
            clean_up_by("delete")
        admin.delete_records({TopicPartition(topic, 0): offset})
        if is_compacted:
            clean_up_by("compact")
    finally:
        admin.close()


def _refusal(worker: Worker, pattern: str) -> None:
    """The worker ends by itself; the last that it says is one line with this reason."""
    assert worker.wait_for_end() not in (0, -9)
    last = worker.said().rstrip().splitlines()[-1]
    assert re.search(pattern, last), worker.said()[-4000:]
    assert "replay the log" in last
    assert "LostDataError: " not in worker.said()  # as a traceback ends


@pytest.mark.parametrize("which", ["interactions", "nodes", "propagation"])
def test_retention_that_overtakes_a_reading_worker_stops_it(deployed: Deployed, which: str) -> None:
    """The worker sleeps while records come and go, as one does that cannot keep up."""
    log = random_log(EVENTS, seed=5)
    deployment, oracle = deployed(log)
    topic = getattr(deployment.topology.topics, which)
    deployment.produce()
    worker = deployment.start("a")
    deployment.wait_for(len(oracle.embeddings))
    deployment.settle()
    read = records_of(deployment.servers, topic)[0][-1].offset + 1
    sent = len(records_of(deployment.servers, deployment.topology.topics.propagation)[0])
    worker.process.signal(signal.SIGSTOP)
    # Again what is there: the first of them may have been asked for before the worker fell asleep.
    again = records_of(deployment.servers, topic)[0][-1]
    for _ in range(4):
        deployment.producer.send(topic, key=again.key, value=again.value, partition=0).get(20)
    _delete_below(deployment, topic, read + 3)
    worker.expected_to_end = True
    worker.process.signal(signal.SIGCONT)
    _refusal(worker, rf"{topic}/0: offset[s0-9 to]* {read + 2} (was|were) deleted before")
    if which == "interactions":
        after = len(records_of(deployment.servers, deployment.topology.topics.propagation)[0])
        assert after == sent, "a block was sent over the gap"


def test_changelog_that_was_cut_is_not_recovered_from(deployed: Deployed) -> None:
    log = random_log(EVENTS, seed=6)
    deployment, oracle = deployed(log)
    deployment.produce()
    deployment.start("a")
    deployment.wait_for(len(oracle.embeddings))
    deployment.stop()
    _delete_below(deployment, deployment.topology.changelog, 2)
    # A disk that has it all goes on; an empty one would be a state with a hole.
    worker = deployment.start("a")
    deployment.wait_until_said(worker, "Worker ready")
    deployment.stop()
    _refusal(deployment.start("b"), f"{deployment.topology.changelog}/0: offsets 0 to 1 were deleted before")


def test_labels_that_nobody_has_checked_are_passed_over(deployed: Deployed) -> None:
    """No state rests on them, and the next start would stop at the same place."""
    log = random_log(EVENTS, seed=5)
    deployment, _ = deployed(log)
    labels = deployment.topology.topics.labels
    for _ in range(3):
        deployment.producer.send(labels, value=b"{}", partition=0).get(20)
    deployment.start("a")
    deployment.wait_until("three dead letters", lambda: len(deployment.outputs.dead_letters) == 3)
    deployment.stop()
    for _ in range(4):
        deployment.producer.send(labels, value=b"{}", partition=0).get(20)
    _delete_below(deployment, labels, 6)
    worker = deployment.start("a")
    deployment.wait_until_said(worker, f"{labels}/0: offsets 3 to 5 were deleted unread")
    deployment.wait_until("four dead letters", lambda: len(deployment.outputs.dead_letters) == 4)
    deployment.stop()
    assert deployment.outputs.embeddings == {}
