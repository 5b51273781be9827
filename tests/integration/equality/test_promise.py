"""The conditions of the promise, one by one: what is late, what waits for what, what may change while workers run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from math import inf, nextafter

import numpy as np
import orjson
from kafka.admin import KafkaAdminClient

from stream_tgat.backlog.standing_still import held_back
from tests.integration.equality.checks import assert_equal, finish
from tests.integration.equality.scenarios import Deployed, start
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import START, Record, punctuation, random_log


def _interaction(partition: int, user: str, item: str, time_s: float, name: str) -> Record:
    value = {"user": user, "item": item, "timestamp": START + time_s, "id": name, "amount": time_s, "kind": "buy"}
    return Record(partition, orjson.dumps({**value, "vector": [0.5, -0.5]}))


def _before_the_newest_of(records: Iterable[Record], user: str, item: str) -> float:
    """Seconds since START just before the newest interaction of each of the two."""
    read = [orjson.loads(each.value) for each in records if each.value and b"timestamp" in each.value]
    theirs = [max(each["timestamp"] for each in read if node in each.values()) for node in (user, item)]
    return min(theirs) - START - 0.25


def test_late_event_gets_its_own_embedding_and_revises_nothing(deployed: Deployed) -> None:
    before = random_log(150, seed=21, jitter_s=0.0)
    last = START + 1_000_000.0
    on_time = [_interaction(n % 4, f"a{n % 12}", f"b{n % 8}", 1_000_000.0 + n, f"on-time-{n:02d}") for n in range(30)]
    # Among the newest rows of their nodes, so that what comes later has them as neighbours. They share no node: what
    # one late event sees of another depends on which comes first.
    late = [
        _interaction(2, "a1", "b1", _before_the_newest_of(before.records, "a1", "b1"), "late-1"),
        _interaction(1, "a2", "b2", _before_the_newest_of(before.records, "a2", "b2"), "late-2"),
    ]
    phases = [before.records, [*punctuation(last, 4), *late], [*on_time, *punctuation(last + 100.0, 4)]]
    log = before.with_records([record for phase in phases for record in phase])
    deployment, oracle = deployed(log, oracle_takes_log=False)
    start(deployment)
    for phase in phases:
        oracle.take(phase)
        deployment.produce(phase)
        deployment.wait_for(len(oracle.embeddings))
    deployment.stop()
    assert_equal(deployment, oracle)
    marked = {each["interaction"] for each in deployment.outputs.embeddings.values() if each.get("late")}
    assert marked == {"late-1", "late-2"}


def test_replay_at_any_speed_gives_the_same_embeddings(deployed: Deployed) -> None:
    """Sources out of step, and pauses in which each is read to its end: only events raise the watermark."""
    log = random_log(300, seed=22)
    random = np.random.default_rng(22)
    deployment, oracle = deployed(log)
    waiting = {p: [record for record in log.records if record.partition == p] for p in range(log.partitions)}
    worker = start(deployment)
    deployment.produce(waiting.pop(3)[:40])
    waiting[3] = [record for record in log.records if record.partition == 3][40:]
    deployment.wait_until_said(worker, " s for interactions/0, interactions/1, interactions/2 (no")
    assert not deployment.outputs.embeddings, "embeddings came before the other sources said anything"
    told = held_back(deployment.topology)
    assert told is not None
    assert re.match(r"\d+ rows wait for interactions/0, interactions/1, interactions/2 \(no record so far\)", told)
    while any(waiting.values()):
        partition = int(random.choice([p for p, records in waiting.items() if records]))
        count = int(random.integers(10, 40))
        deployment.produce(waiting[partition][:count])
        waiting[partition] = waiting[partition][count:]
        time.sleep(0.2)
    finish(deployment, oracle)
    assert held_back(deployment.topology) is None


def test_idle_source_holds_nobody_back_and_what_it_comes_back_with_is_counted(deployed: Deployed) -> None:
    whole = random_log(150, seed=27, jitter_s=0.0)
    # Partition 3 has nothing at first, and then what lies behind and what does not.
    before = [replace(record, partition=record.partition % 3) for record in whole.records]
    behind = [_interaction(3, "a1", "b1", _before_the_newest_of(before, "a1", "b1"), "behind")]
    after = [_interaction(n % 4, f"a{n % 12}", f"b{n % 8}", 1_000_000.0 + n, f"after-{n:02d}") for n in range(40)]
    after += punctuation(nextafter(START + 1_000_039.0, inf), 4)
    deployment, oracle = deployed(
        whole.with_records([*before, *behind, *after]), Settings(idle_after_s=3.0), oracle_takes_log=False
    )
    worker = start(deployment)
    # What lies behind is to come before its nodes have gone on: partitions are read in any order.
    for phase in (before, behind, after):
        oracle.take(phase)
        deployment.produce(phase)
        deployment.wait_for(len(oracle.embeddings))
    deployment.wait_until_said(worker, "late in all: 2 of interactions/3")
    deployment.stop()
    assert_equal(deployment, oracle)
    marked = {each["interaction"] for each in deployment.outputs.embeddings.values() if each.get("late")}
    assert marked == {"behind"}


def test_wall_clock_computes_at_the_end_of_the_sources_without_punctuation(deployed: Deployed) -> None:
    log = random_log(200, seed=23, jitter_s=0.0, punctuation_every=1_000)
    log = log.with_records([record for record in log.records if record.value is not None])
    deployment, oracle = deployed(log, Settings(clock="wall"))
    deployment.produce()
    start(deployment)
    finish(deployment, oracle)


def test_no_embedding_leaves_before_all_node_features_are_read(deployed: Deployed) -> None:
    log = random_log(200, seed=24)
    deployment, oracle = deployed(log)
    deployment.produce()
    start(deployment, HOLD_NODES_S="8")
    finish(deployment, oracle)


def test_later_node_features_hold_for_later_interactions(deployed: Deployed) -> None:
    log = random_log(150, seed=25, jitter_s=0.0)
    changed = [(b"b1", orjson.dumps({"node": "b1", "features": [3.0, -2.0, 1.0]}))]
    after = [_interaction(n % 4, f"a{n % 5}", f"b{n % 3}", 1_000_000.0 + n, f"after-{n:02d}") for n in range(40)]
    after += punctuation(nextafter(START + 1_000_039.0, inf), 4)
    deployment, oracle = deployed(log)
    start(deployment)
    deployment.produce()
    deployment.wait_for(len(oracle.embeddings))
    oracle.set_features(changed)
    deployment.producer.send(deployment.topology.topics.nodes, key=changed[0][0], value=changed[0][1])
    deployment.producer.flush()
    time.sleep(2.0)
    oracle.take(after)
    deployment.produce(after)
    finish(deployment, oracle)


def test_interactions_that_gain_partitions_wait_for_the_new_ones_too(deployed: Deployed) -> None:
    before = random_log(150, seed=26, jitter_s=0.0)
    after = [_interaction(n % 6, f"a{n % 12}", f"b{n % 8}", 1_000_000.0 + n, f"after-{n:02d}") for n in range(60)]
    after += punctuation(nextafter(START + 1_000_059.0, inf), 6)
    deployment, oracle = deployed(before.with_records([*before.records, *after]), oracle_takes_log=False)
    worker = start(deployment)
    oracle.take(before.records)
    deployment.produce(before.records)
    deployment.wait_for(len(oracle.embeddings))
    admin = KafkaAdminClient(bootstrap_servers=deployment.servers)
    admin.create_partitions({deployment.topology.topics.interactions: 6})
    admin.close()
    deployment.wait_until_said(worker, "interactions 0, 1, 2, 3, 4, 5;")
    deployment.reconnect()
    # The new ones last: what they hold lies between what the others hold.
    oracle.take(after)
    deployment.produce([record for record in after if record.partition < 4])
    time.sleep(2.0)
    deployment.produce([record for record in after if record.partition >= 4])
    finish(deployment, oracle)
