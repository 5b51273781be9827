"""What a worker is asked for its metrics page: all of the catalogue, read from its parts at the moment of asking.

Nothing here is on the way of an event: what must be counted on that way, the parts count themselves (`Metrics`).
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from stream_tgat.agents.metrics import Metrics, quality_samples
from stream_tgat.housekeeping.telling import how_far
from stream_tgat.metrics import Metric, Sample, catalogue
from stream_tgat.topology import ROLES, Topology
from stream_tgat.transport.client import Lag
from stream_tgat.wire.packets import Source

if TYPE_CHECKING:
    from faust.types import TP

    from stream_tgat.agents.engine_thread import EngineThread
    from stream_tgat.agents.propagate import Propagate
    from stream_tgat.housekeeping.process_beside import ProcessBeside
    from stream_tgat.housekeeping.quality import QualityWatch

_ROCKSDB: Final = {
    "rocksdb.total-sst-files-size": (catalogue.ROCKSDB_FILES, ()),
    "rocksdb.cur-size-all-mem-tables": (catalogue.ROCKSDB_MEMORY, ("memtables",)),
    "rocksdb.estimate-table-readers-mem": (catalogue.ROCKSDB_MEMORY, ("table_readers",)),
    "rocksdb.estimate-num-keys": (catalogue.ROCKSDB_KEYS, ()),
    "rocksdb.estimate-pending-compaction-bytes": (catalogue.ROCKSDB_COMPACTION, ()),
    "rocksdb.is-write-stopped": (catalogue.ROCKSDB_STOPPED, ()),
}


def topic_roles(topology: Topology) -> dict[str, str]:
    """What each topic is to the deployment ("interactions", "interactions.2"), by its full name."""
    roles = {full: role.replace("_", "-") for role, full in vars(topology.topics).items()}
    for role in ROLES:
        for number, name in enumerate(topology.input_topics(role)[1:], start=2):
            roles[name] = f"{role}.{number}"
    return roles


class Lags:
    """How far each partition of a worker is behind.

    app: the application   ingest: knows how far sources were sent on, which is later than handed on by the consumer
    """

    def __init__(self, app: Any, ingest: Any, metrics: Metrics) -> None:
        self._app = app
        self._ingest = ingest
        self._metrics = metrics

    def all(self) -> dict[TP, Lag]:
        """Of each source partition that this worker works on, where it is known."""
        return {tp: lag for tp, lag in self._looked_up().items() if lag is not None}

    def unread(self) -> TP | None:
        """A partition of this worker of which is not known yet how far it is behind, if there is one."""
        return next((tp for tp, lag in self._looked_up().items() if lag is None), None)

    def _looked_up(self) -> dict[TP, Lag | None]:
        places: Mapping[TP, tuple[int, float | None]] = self._ingest.places()
        changelogs = self._app.tables.changelog_topics
        mine = sorted(tp for tp in self._app.recovered if tp.topic not in changelogs)
        return {tp: self._app.lag(tp, places.get(tp)) for tp in mine}

    def worst(self) -> tuple[str, Lag] | None:
        """What is furthest behind, reading a partition or computing; None while that is not known of all partitions."""
        found = {f"{tp.topic}/{tp.partition}": lag for tp, lag in self.all().items()}
        if not found or self.unread() is not None:
            return None
        found["computing"] = Lag(self._metrics.due, self._metrics.embedding_lag_s)
        return max(found.items(), key=lambda each: (each[1].seconds, each[1].records))

    def why_behind(self, limit_s: float) -> str | None:
        """What is furthest behind, in words; None if that is by no more than serving.ready_within_s, the limit."""
        unread = self.unread()
        if unread is not None:
            return f"catching up: {unread.topic}/{unread.partition} has not been read yet"
        worst = self.worst()
        if worst is None or worst[1].seconds <= limit_s:
            return None
        return f"catching up: {how_far(*worst)} (serving.ready_within_s = {limit_s:g})"


class Observer:
    """Reads all metrics of a worker from its parts."""

    def __init__(
        self,
        app: Any,
        lags: Lags,
        propagate: Propagate,
        engine: EngineThread,
        renewal: ProcessBeside,
        quality: QualityWatch,
        version: str,
    ) -> None:
        """version: of this software"""
        self._app = app
        self._version = version
        self._lags = lags
        self._propagate = propagate
        self._engine = engine
        self._renewal = renewal
        self._quality = quality
        self._roles = topic_roles(app.topology)

    def samples(self) -> Iterator[Sample]:
        """All that is known now."""
        app = self._app
        yield from self._counted(app.metrics)
        yield from self._of_time()
        yield from self._of_state()
        yield from self._of_group()
        yield Sample(catalogue.RENEWAL_RUNNING, int(self._renewal.running))
        yield Sample(catalogue.RENEWAL_FAILURES, self._renewal.failures)
        if self._quality.report is not None:
            yield from quality_samples(self._quality.report)

    def _counted(self, metrics: Metrics) -> Iterator[Sample]:
        yield from metrics.samples()
        refused = Counter({(self._role(topic), reason): n for (topic, reason), n in metrics.refused.items()})
        yield from (Sample(catalogue.DEAD_LETTERS, count, labels) for labels, count in sorted(refused.items()))
        read = Counter[str]()
        for topic, count in self._app.monitor.messages_received_by_topic.items():
            read[self._role(topic)] += count
        yield from _by_label(catalogue.RECORDS_READ, read)
        lookups, misses = self._engine.lookups
        yield from _by_label(catalogue.NODE_LOOKUPS, {"hit": lookups - misses, "miss": misses})

    def _of_time(self) -> Iterator[Sample]:
        for tp, lag in self._lags.all().items():
            labels = self._role(tp.topic), str(tp.partition)
            yield Sample(catalogue.LAG_RECORDS, lag.records, labels)
            yield Sample(catalogue.LAG_SECONDS, lag.seconds, labels)
        held = self._app.metrics.held_back_s
        for source, watermark in sorted(self._propagate.source_watermarks().items()):
            labels = self._source(source)
            if math.isfinite(watermark):
                yield Sample(catalogue.WATERMARK, watermark, labels)
            yield Sample(catalogue.BLOCKING_SECONDS, held.get(source, 0.0), labels)

    def _of_state(self) -> Iterator[Sample]:
        app = self._app
        yield Sample(catalogue.CACHE_USED, self._engine.cache_bytes)
        yield Sample(catalogue.CACHE_LIMIT, app.topology.serving.cache_bytes)
        store = app.table.data
        for name, value in store.figures(tuple(_ROCKSDB)).items():
            metric, labels = _ROCKSDB[name]
            yield Sample(metric, value, labels)
        yield Sample(catalogue.ROCKSDB_MEMORY, store.block_cache_bytes, ("block_cache",))
        yield Sample(catalogue.DAMAGED, app.table.damaged)
        try:
            yield Sample(catalogue.DISK_FREE, shutil.disk_usage(app.conf.datadir).free)
        except FileNotFoundError:
            # Nothing was stored yet: the folder is made by the first partition.
            return

    def _of_group(self) -> Iterator[Sample]:
        app = self._app
        yield Sample(catalogue.READY, int(app.why_not_ready() is None))
        yield Sample(catalogue.BROKERS, int(app.broker_watch.silence is None))
        assigned = Counter(self._role(tp.topic) for tp in app.recovered if tp.topic in self._roles)
        yield from _by_label(catalogue.PARTITIONS, assigned)
        there = Counter(source.kind for source in self._propagate.expected)
        there[self._role(app.topology.topics.propagation)] = app.topology.kafka.partitions
        yield from _by_label(catalogue.TOPIC_PARTITIONS, there)
        yield Sample(catalogue.REBALANCING, int(not app.fence.is_open))
        yield Sample(catalogue.REBALANCES, app.rebalancing_count)
        yield Sample(catalogue.GENERATION, app.fence.current_generation)
        if math.isfinite(app.fence.heartbeat_age_s):
            yield Sample(catalogue.HEARTBEAT_AGE, app.fence.heartbeat_age_s)
        yield Sample(catalogue.RECOVERY_REMAINING, app.tables.recovery.remaining)
        yield Sample(catalogue.BUILD, 1, (self._version,))

    def _role(self, topic: str) -> str:
        return self._roles.get(topic, "changelog")

    def _source(self, source: Source) -> tuple[str, str]:
        return source.kind, str(source.partition_of_topic)


def _by_label(metric: Metric, values: Mapping[str, float]) -> Iterator[Sample]:
    for label, value in sorted(values.items()):
        yield Sample(metric, value, (label,))
