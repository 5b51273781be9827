"""How far the workers are behind each source, and which one holds rows back: from what they have committed."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import TopicPartition

from stream_tgat.backlog.committed import partition_progress
from stream_tgat.backlog.standing_still import STILL_S, what_stands_still
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import lone_consumer
from stream_tgat.wire.packets import Source, SourceTopic

_KEPT_S: Final = 3 * STILL_S


@dataclass(frozen=True)
class SourceLag:
    """One partition that feeds the deployment. name: as in interactions/3   behind: records that are not in all state
    watermark: up to where it has come, unix seconds; None before its first event
    """

    name: str
    behind: int
    watermark: float | None


@dataclass(frozen=True)
class Behind:
    """sources: in order   waiting: rows whose time has not come   blocking: names of the sources that rows wait for
    sentence: what holds rows back and what moves it, None while they wait for no longer than they must
    """

    sources: list[SourceLag]
    waiting: int
    blocking: list[str]
    sentence: str | None


class LagReader:
    """Asks the brokers; used by one thread, and closed by it."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._consumer = lone_consumer(topology)
        self._before: deque[tuple[float, Mapping[int, PartitionProgress]]] = deque()

    def look(self) -> Behind:
        """As of the newest commits. Raises TopicError or KafkaError where the brokers do not answer."""
        now, found = time.monotonic(), partition_progress(self._topology, self._consumer)
        ends = self._ends()
        before = next((each for at, each in self._before if now - at <= _KEPT_S), found)
        is_old_enough = bool(self._before) and now - self._before[0][0] >= STILL_S
        self._before.append((now, found))
        while self._before and now - self._before[0][0] > _KEPT_S:
            self._before.popleft()
        sentence = None
        if is_old_enough:
            by_the_clock = self._topology.time.clock == "wall"
            sentence = what_stands_still(before, found, ends, by_the_clock=by_the_clock, is_served=True)
        return behind_of(found, ends, sentence)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _ends(self) -> dict[Source, int]:
        roles = source_topics(self._topology)
        places = {
            TopicPartition(name, partition): role.source(partition)
            for name, role in roles.items()
            for partition in sorted(self._consumer.partitions_for_topic(name) or ())
        }
        ends: dict[Any, int] = self._consumer.end_offsets(list(places))
        return {source: ends[place] for place, source in places.items()}


def behind_of(found: Mapping[int, PartitionProgress], ends: Mapping[Source, int], sentence: str | None) -> Behind:
    """What commits say, beside the ends of the sources.

    found: what each partition has committed   ends: the next offset of each source
    """
    tables = [each.sources.of for each in found.values()]
    sources = []
    for source, end in sorted(ends.items()):
        known = [table[source] for table in tables if source in table]
        reached = min((each.end for each in known), default=0) if len(known) == len(tables) and tables else 0
        watermark = min((each.watermark for each in known), default=-math.inf)
        sources.append(SourceLag(str(source), max(end - reached, 0), watermark if math.isfinite(watermark) else None))
    waiting = sum(each.waiting for each in found.values())
    return Behind(sources, waiting, _blocking(found, ends) if waiting else [], sentence)


def _blocking(found: Mapping[int, PartitionProgress], ends: Mapping[Source, int]) -> list[str]:
    """The sources with the smallest watermark; node features only while they are read."""
    smallest = {
        source: min(each.sources.watermark_of(source) for each in found.values())
        for source in ends
        if source.topic is SourceTopic.INTERACTIONS
    }
    least = min(smallest.values(), default=math.inf)
    return [str(source) for source, each in sorted(smallest.items()) if each == least < math.inf]
