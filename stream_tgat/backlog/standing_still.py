"""Whether events are held back now, and by what, from what the workers have committed: for `status` and the service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from kafka.errors import KafkaError

from stream_tgat.backlog.holding import furthest_behind, what_holds
from stream_tgat.brokers import admin_client
from stream_tgat.errors import TopicError
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stream_tgat.message_passing.progress import PartitionProgress
    from stream_tgat.wire.packets import Source

#: Live events wait for a moment, always. What has not moved for so long is held back.
STILL_S: Final = 4.0


def held_back(topology: Topology) -> str | None:
    """A line about rows that are held back; None where none are. Raises TopicError if the brokers do not answer.

    Each commit of a partition says how far it is, so its past is in the log too.
    """
    from stream_tgat.backlog.committed import partition_progress
    from stream_tgat.training.kafka_log import lone_consumer, topic_range

    consumer = lone_consumer(topology)
    try:
        now = partition_progress(topology, consumer)
        if not any(each.waiting for each in now.values()):
            return None
        before = partition_progress(topology, consumer, as_of=time.time() - STILL_S)
    finally:
        consumer.close()
    expected = {
        role.source(partition)
        for name, role in source_topics(topology).items()
        for partition in topic_range(topology, name)
    }
    return what_stands_still(
        before, now, expected, by_the_clock=topology.time.clock == "wall", is_served=_has_worker(topology)
    )


def what_stands_still(
    before: Mapping[int, PartitionProgress],
    now: Mapping[int, PartitionProgress],
    expected: Collection[Source],
    *,
    by_the_clock: bool,
    is_served: bool,
) -> str | None:
    """The line, from what each partition had committed at two times.

    expected: all sources of the deployment   by_the_clock: time.clock is "wall"   is_served: whether a worker runs
    """
    stuck = [
        each
        for partition, each in now.items()
        if each.waiting and partition in before and each.passed == before[partition].passed
    ]
    if not stuck:
        return None
    rows = f"{sum(each.waiting for each in stuck):,} rows wait"
    if not is_served:
        return f"{rows}, and no worker runs."
    watermarks = {source: min(each.sources.watermark_of(source) for each in stuck) for source in expected}
    sources = furthest_behind(watermarks)
    if not sources:
        return None
    return f"{rows} for {what_holds(sources, watermarks[sources[0]], by_the_clock=by_the_clock)}"


def _has_worker(topology: Topology) -> bool:
    group, admin = topology.app_id, admin_client(topology.kafka)
    try:
        return bool(admin.describe_groups([group])[group]["members"])
    except KafkaError as problem:
        raise TopicError(f"the group {group!r} cannot be looked at: {problem!r}") from problem
    finally:
        admin.close()
