"""What lies in `propagation`: as much as somebody may still read, and no more ahead of its readers than is allowed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from stream_tgat.agents.throttle import Throttle
from stream_tgat.housekeeping.propagation_topic import PropagationTopic
from stream_tgat.topology import Topology
from tests.unit.agents.fakes import FakeCluster

TOPIC = "p-propagation"


def topic(cluster: FakeCluster, throttle: Throttle, committed: dict[int, int]) -> PropagationTopic:
    """Of three partitions; committed: the last records in the state of those that this worker owns"""
    topology = Topology.model_validate({"name": "t", "kafka": {"topic_prefix": "p-", "partitions": 3}})
    partitions: Any = SimpleNamespace(committed_offsets=committed)
    return PropagationTopic(topology, cluster, partitions, throttle)  # type: ignore[arg-type]


def test_records_up_to_the_committed_ones_are_deleted_and_none_beyond() -> None:
    """Partition 2 has nothing in its state yet: all that it needs still lies in the log."""
    cluster = FakeCluster({})
    asyncio.run(topic(cluster, Throttle(100, 10), {0: 41, 1: 0, 2: -1}).delete_done())
    # A deletion keeps the offset that it names: the one that is read next.
    assert cluster.deleted == {TOPIC: {0: 42, 1: 1}}


def test_partitions_of_others_are_read_as_far_as_the_group_has_committed() -> None:
    cluster, throttle = FakeCluster({}), Throttle(100, 10)
    for partition in range(3):
        throttle.sent(partition, 5, 90 - partition)
    cluster.offsets = {TOPIC: {0: 6, 1: 6, 2: 5}}
    asyncio.run(topic(cluster, throttle, {0: 4}).look())
    # 0 is its own, and it knows better than the group; of 2 the record at offset 5 is still unread.
    assert throttle.backlog() == 90
    throttle.read(0, 6)
    assert throttle.backlog() == 88


def test_group_is_not_asked_by_a_worker_that_owns_all_partitions() -> None:
    cluster = FakeCluster({})
    asyncio.run(topic(cluster, Throttle(100, 10), {0: 4, 1: 4, 2: 4}).look())
    assert cluster.asked == []
