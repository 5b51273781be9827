"""Reads the topics of a deployment along, in a thread of its own: what candidates and the page are made of."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgpack
import numpy as np
from kafka import TopicPartition
from kafka.errors import KafkaError
from pydantic import ValidationError

from stream_tgat.brokers import consumer
from stream_tgat.client import Alert, Embedding, read_alerts, read_embeddings, read_latest
from stream_tgat.errors import UnreachableRegistryError
from stream_tgat.monitoring.publishing import KEY as QUALITY_KEY
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.watching.memory import Memory
from stream_tgat.schema_registry import RegisteredValues
from stream_tgat.topology import Kind, Topology, split_node_key
from stream_tgat.wire import (
    DecodedInteraction,
    DecodedLabel,
    InteractionReader,
    LabelReader,
    OutputValues,
    QualityReport,
    Several,
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T", Embedding, Alert)
_Read = Callable[[list[Any], RegisteredValues], Iterator[_T]]

#: So many of the newest records of `embeddings` are read when the service starts, and all of `latest`.
NEWEST: Final = 500_000
_ALL: Final = 1 << 62
_NEWEST_LABELS: Final = 100_000
_NEWEST_ALERTS: Final = 2_000
#: `quality` holds one report, and what compaction has not taken away yet.
_NEWEST_REPORTS: Final = 20
#: Interactions say when they were written, for the latency; a backlog of them says nothing, and is passed over.
_BACKLOG: Final = 5_000
_FETCH_BYTES: Final = 1 << 20
_FETCH_MS: Final = 250
_POLL_MS: Final = 250
_PAUSE_S: Final = 5.0
_ENDS_S: Final = 1.0
#: Partitions that are added, and topics that are created, are found after so long.
_PARTITIONS_MS: Final = 10_000
_SEEN: Final = 20_000
_STOP_S: Final = 2.0
_NOT_OURS: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, msgpack.UnpackException)


class Following:
    """Reads until it is stopped; where the brokers fail it begins again after a while."""

    def __init__(self, topology: Topology, catalog: Catalog, memory: Memory) -> None:
        self._topology = topology
        self._has_latest = topology.serving.latest
        self._catalog = catalog
        self._memory = memory
        self._heads = topology.head_names
        self._interactions, self._labels = InteractionReader(topology), LabelReader(topology)
        self._schemas = OutputValues(topology).registered
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catalog", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until it has; not for brokers that are away, as it holds nothing that must be finished."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaError, UnreachableRegistryError) as problem:
                # Candidates are as of a while ago, exact answers are asked of workers.
                _log.warning("The topics cannot be read, and are tried again: %s", str(problem) or repr(problem))
                self._stop.wait(_PAUSE_S)

    def _follow(self) -> None:
        topics, inputs = self._topology.topics, self._topology.input_topics
        back = (
            dict.fromkeys(inputs("interactions"), 0)
            | dict.fromkeys(inputs("labels"), _NEWEST_LABELS)
            | {topics.alerts: _NEWEST_ALERTS, topics.quality: _NEWEST_REPORTS, topics.embeddings: NEWEST}
        )
        take: dict[str, Callable[[list[Any]], None]] = (
            dict.fromkeys(inputs("interactions"), self._take_interactions)
            | dict.fromkeys(inputs("labels"), self._take_labels)
            | {
                topics.alerts: self._take_alerts,
                topics.quality: self._take_reports,
                topics.embeddings: self._take_embeddings,
            }
        )
        if self._has_latest:
            back[topics.latest], take[topics.latest] = _ALL, self._take_latest
        reader = consumer(
            self._topology.kafka,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            allow_auto_create_topics=False,
            # A fetch costs much the same whatever comes of it, and nobody waits for what is read here.
            fetch_min_bytes=_FETCH_BYTES,
            fetch_max_wait_ms=_FETCH_MS,
            metadata_max_age_ms=_PARTITIONS_MS,
        )
        try:
            looked_at = -_ENDS_S
            while not self._stop.is_set():
                if time.monotonic() - looked_at > _ENDS_S:
                    self._take_up(reader, back)
                    self._look_ahead(reader)
                    looked_at = time.monotonic()
                for place, records in reader.poll(timeout_ms=_POLL_MS, max_records=2000).items():
                    take[place.topic](records)
                # The questions' thread must get its turns while much is read.
                time.sleep(0.001)
        finally:
            reader.close()

    def _take_up(self, reader: Any, back: dict[str, int]) -> None:
        """Be assigned all partitions that there are now, and begin with each new one where it is read from.

        At the start that is so many records before the end; of what has been added since, nothing has been read.
        """
        places = {
            TopicPartition(topic, partition): most
            for topic, most in back.items()
            for partition in sorted(reader.partitions_for_topic(topic) or ())
        }
        known = reader.assignment()
        new = [place for place in places if place not in known]
        if not new:
            return
        reader.assign([*known, *new])
        begins = reader.beginning_offsets(new)
        if known:
            _log.info("Also read from now on: %s", ", ".join(f"{place.topic}/{place.partition}" for place in new))
            for place in new:
                reader.seek(place, begins[place])
            return
        count, ends = Counter(place.topic for place in places), reader.end_offsets(new)
        for place in new:
            reader.seek(place, max(begins[place], ends[place] - -(-places[place] // count[place.topic])))

    def _look_ahead(self, reader: Any) -> None:
        """See how much is unread, and pass over a backlog of interactions."""
        ends = reader.end_offsets(list(reader.assignment()))
        passed_over = self._topology.input_topics("interactions")
        unread = 0
        for place, end in ends.items():
            behind = max(end - reader.position(place), 0)
            if place.topic in passed_over and behind > _BACKLOG:
                reader.seek(place, end)
            elif place.topic in (self._topology.topics.embeddings, self._topology.topics.latest):
                unread += behind
        self._catalog.behind = unread

    def _take_embeddings(self, records: list[Any]) -> None:
        for each, written in self._decoded(read_embeddings, records):
            vector = np.asarray(each.embedding, np.float32)
            # Where ids are shared, the output's id tells the side: …/0/model of the user.
            side: Kind = "user" if each.id.rsplit("/", 2)[1] == "0" else "item"
            if side == "item":
                self._catalog.items.met(each.node, each.timestamp)
            if not self._has_latest:
                self._catalog.put(each.node, side, each.model, vector)
            self._memory.embedded(each, side, vector, written)

    def _take_latest(self, records: list[Any]) -> None:
        kinds: tuple[Kind, ...] = ("user", "item")
        for record in records:
            try:
                for each in read_latest([record], self._schemas):
                    for kind in kinds if each.kind is None else (each.kind,):
                        self._catalog.put(each.node, kind, each.model, each.embedding)
            except _NOT_OURS as problem:
                _log.warning("%s/%d/%d is no node: %r", record.topic, record.partition, record.offset, problem)

    def _take_alerts(self, records: list[Any]) -> None:
        for each, _ in self._decoded(read_alerts, records):
            self._memory.raised(each)

    def _take_labels(self, records: list[Any]) -> None:
        for record in records:
            label = self._labels.read(record, 1e-3 * record.timestamp)
            if isinstance(label, DecodedLabel):
                self._memory.turned_out(split_node_key(label.node)[1], label)

    def _take_interactions(self, records: list[Any]) -> None:
        for record in records:
            written = 1e-3 * record.timestamp
            found = self._interactions.read(record, written)
            each = found.interactions if isinstance(found, Several) else (found,)
            for one in each:
                if isinstance(one, DecodedInteraction):
                    self._memory.written(one.id.decode(errors="replace"), written)

    def _take_reports(self, records: list[Any]) -> None:
        for record in records:
            if record.key == QUALITY_KEY and record.value is not None:
                try:
                    self._memory.reported(QualityReport.model_validate_json(record.value))
                except ValidationError:
                    # Of a version that knows other fields.
                    continue

    def _decoded(self, read: _Read[_T], records: list[Any]) -> Iterator[tuple[_T, float]]:
        """Each record that is of ours, once, and when it was written (unix seconds)."""
        for record in records:
            try:
                for each in read([record], self._schemas):
                    if each.id in self._seen:
                        continue
                    self._seen[each.id] = None
                    if len(self._seen) > _SEEN:
                        self._seen.popitem(last=False)
                    yield each, 1e-3 * record.timestamp
            except _NOT_OURS as problem:
                _log.warning("%s/%d/%d is no output: %r", record.topic, record.partition, record.offset, problem)
