"""Every step of the commit, and its order, matters: a worker that dies, sleeps or is misled between two of them."""

from __future__ import annotations

import re
import signal
import time

from broker import Broker
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from stream_tgat.commands.topics import ensure_topics
from stream_tgat.message_passing.progress import RESERVED_KEY
from tests.integration.equality.checks import assert_equal, finish
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.received import records_of
from tests.integration.equality.scenarios import Deployed, start
from tests.integration.equality.segments import record_batches
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import Record, random_log

# The first fault hits ingest, which sends first: some partitions have their packet, others not.
FAULTS = (
    "sending:2:KILL",
    "sending:9:KILL",
    "commit:3:KILL",
    "appended:3:KILL",
    "written:3:KILL",
    "acknowledged:5:KILL",
)


def test_worker_killed_between_any_two_steps_loses_nothing(broker: Broker, deployed: Deployed) -> None:
    log = random_log(400, seed=11, users=20)
    deployment, oracle = deployed(log, Settings(micro_batch=16))
    deployment.produce()
    for fault in FAULTS:
        worker = start(deployment, FAULT=fault, SLOW_OUTPUTS_S="0.05")
        assert worker.wait_for_end() == -signal.SIGKILL, worker.said()[-3000:]
    deployment.read()
    assert len(deployment.outputs.embeddings) < len(oracle.embeddings), "the faults came after the last commit"
    start(deployment)
    finish(deployment, oracle)
    _each_commit_is_one_batch(broker, deployment)


def test_write_that_fails_once_ends_the_worker_and_loses_nothing(deployed: Deployed) -> None:
    log = random_log(400, seed=16, users=20)
    deployment, oracle = deployed(log, Settings(micro_batch=16))
    deployment.produce()
    worker = start(deployment, FAULT="writing:9:ENOSPC", SLOW_OUTPUTS_S="0.02")
    assert worker.wait_for_end() > 0
    deployment.assert_fewer_than(len(oracle.embeddings))
    start(deployment)
    finish(deployment, oracle)


def test_limit_lowered_below_the_outputs_ends_the_worker_with_a_line_and_loses_nothing(deployed: Deployed) -> None:
    log = random_log(400, seed=17, users=20)
    deployment, oracle = deployed(log, Settings(micro_batch=16))
    deployment.produce()
    topic = deployment.topology.topics.embeddings
    worker = start(deployment, SLOW_OUTPUTS_S="0.05")
    deployment.wait_for(len(oracle.embeddings) // 8)
    _limit(deployment, topic, 600)
    assert worker.wait_for_end() == 1
    deployment.assert_fewer_than(len(oracle.embeddings))
    last = worker.said().splitlines()[-1]
    assert re.fullmatch(rf"Error: {topic}/\d does not take a batch of \d+ bytes .*is 600\. Raise it.*", last), last
    assert "Traceback" not in worker.said()
    refused = start(deployment)
    assert refused.wait_for_end() == 1
    assert f"topic {topic} has max.message.bytes=600 and needs" in refused.said()
    ensure_topics(deployment.topology)
    start(deployment)
    finish(deployment, oracle)


def _limit(deployment: Deployment, topic: str, most_bytes: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(most_bytes)})])
    finally:
        admin.close()


def _each_commit_is_one_batch(broker: Broker, deployment: Deployment) -> None:
    """Every batch of the changelog ends one commit: it has the reserved key exactly once."""
    topic = deployment.topology.changelog
    commits = 0
    for partition, records in records_of(deployment.servers, topic).items():
        keys = {record.offset: record.key for record in records}
        for batch in record_batches(broker.data, topic, partition):
            found = [keys[offset] for offset in batch if offset in keys]
            assert found.count(RESERVED_KEY) == 1, f"{topic}/{partition}, offsets {batch}: {found}"
            commits += 1
    assert commits > len(FAULTS)


def test_worker_that_slept_past_its_session_commits_nothing(deployed: Deployed) -> None:
    log = random_log(300, seed=12)
    deployment, oracle = deployed(log, Settings(micro_batch=16))
    deployment.produce()
    # The first commit notes the model in each partition; when the second begins, nothing sent before the sleep is
    # still under way. (Such an append ends the process, which may not take it back.)
    sleeper = start(deployment, FAULT="commit:2:STOP")
    deployment.wait_until("the worker sleeps", lambda: sleeper.asleep)
    start(deployment, "b")
    deployment.wait_for(len(oracle.embeddings))
    # It may have fallen asleep before it said so the first time.
    ready = sleeper.said().count("Worker ready")
    sleeper.process.signal(signal.SIGCONT)
    # In its next cycle, or when its partitions are taken from it, whichever comes first.
    given_up = ("Batch given up", "What was left is computed again")
    deployment.wait_until("it gives up what it began", lambda: any(words in sleeper.said() for words in given_up))
    deployment.wait_until("it has joined again", lambda: sleeper.said().count("Worker ready") > ready)
    deployment.stop()
    assert_equal(deployment, oracle)


def test_reading_starts_at_the_state_whatever_the_group_has_committed(deployed: Deployed) -> None:
    log = random_log(400, seed=13)
    half = len(log.records) // 2
    deployment, oracle = deployed(log)
    deployment.produce(log.records[:half])
    start(deployment)
    deployment.wait_for(len(oracle.embeddings) // 4)
    deployment.stop()
    topics = deployment.topology.topics
    # Ahead: what is skipped would be lost. Behind: what comes again must not count twice.
    _commit(deployment, topics.propagation, [1_000_000, 0, 1_000_000, 0])
    _commit(deployment, topics.interactions, [0, 0, 0, 0])
    deployment.produce(log.records[half:])
    start(deployment)
    finish(deployment, oracle)


def test_records_skipped_by_ingest_stop_the_worker_with_a_reason(deployed: Deployed) -> None:
    log = random_log(200, seed=14)
    half = len(log.records) // 2
    deployment, _ = deployed(log)
    deployment.produce(log.records[:half])
    start(deployment)
    deployment.wait_for(20)
    deployment.stop()
    deployment.produce(log.records[half:])
    topic = deployment.topology.topics.interactions
    ends = {p: len(records) for p, records in records_of(deployment.servers, topic).items()}
    _commit(deployment, topic, [ends[p] - 1 for p in sorted(ends)])
    worker = start(deployment)
    assert worker.wait_for_end() > 0
    assert "never arrived on" in worker.said()


def test_interactions_created_anew_stop_the_worker_with_a_reason(deployed: Deployed) -> None:
    log = random_log(200, seed=15)
    deployment, oracle = deployed(log)
    deployment.produce()
    start(deployment)
    deployment.wait_for(len(oracle.embeddings))
    deployment.stop()
    topic = deployment.topology.topics.interactions
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)
    admin.delete_topics([topic])
    deadline = time.monotonic() + 20
    while topic in admin.list_topics() and time.monotonic() < deadline:
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, log.partitions, 1)])
    admin.close()
    deployment.produce([Record(p, b"{}") for p in range(log.partitions)])
    worker = start(deployment)
    assert worker.wait_for_end() > 0
    assert topic in worker.said()
    assert "again" in worker.said() or "anew" in worker.said() or "recreated" in worker.said()


def _commit(deployment: Deployment, topic: str, offsets: list[int]) -> None:
    """Say in the group's name that everything below these offsets is done."""
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)
    try:
        admin.alter_group_offsets(
            deployment.topology.app_id,
            {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in enumerate(offsets)},
        )
    finally:
        admin.close()
