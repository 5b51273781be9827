"""Fills the catalog from topic `embeddings`, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

import numpy as np
from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_tgat.brokers import consumer
from stream_tgat.client import read_embeddings
from stream_tgat.query.catalog import Catalog
from stream_tgat.topology import Kind, Topology

_log = logging.getLogger(__name__)

#: So many of the newest records are read when the service starts; older nodes are not known to the catalog.
NEWEST: Final = 500_000
_POLL_MS: Final = 500
_PAUSE_S: Final = 5.0


class Following:
    """Reads until it is stopped; where the brokers fail it begins again after a while."""

    def __init__(self, topology: Topology, catalog: Catalog) -> None:
        self._topology = topology
        self._catalog = catalog
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catalog", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until it has."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except KafkaError as problem:
                # Candidates are as of a while ago, exact answers are asked of workers.
                _log.warning("The topic of embeddings cannot be read, and is tried again: %r", problem)
                self._stop.wait(_PAUSE_S)

    def _follow(self) -> None:
        reader = consumer(self._topology.kafka, enable_auto_commit=False, auto_offset_reset="latest")
        try:
            places = self._places(reader)
            reader.assign(places)
            ends, begins = reader.end_offsets(places), reader.beginning_offsets(places)
            for place in places:
                reader.seek(place, max(begins[place], ends[place] - NEWEST // len(places)))
            while not self._stop.is_set():
                polled = reader.poll(timeout_ms=_POLL_MS, max_records=2000)
                for records in polled.values():
                    self._take(records)
                self._catalog.behind = sum(max(ends[place] - reader.position(place), 0) for place in places)
                # The questions' thread must get its turns while much is read.
                time.sleep(0.001)
        finally:
            reader.close()

    def _places(self, reader: Any) -> list[TopicPartition]:
        topic = self._topology.topics.embeddings
        return [TopicPartition(topic, partition) for partition in sorted(reader.partitions_for_topic(topic) or ())]

    def _take(self, records: list[Any]) -> None:
        for each in read_embeddings(records):
            # Where ids are shared, the output's id tells the side: …/0/model of the user.
            side: Kind = "user" if each.id.rsplit("/", 2)[1] == "0" else "item"
            self._catalog.take(
                each.node, each.kind or side, each.timestamp, each.model, np.asarray(each.embedding, np.float32)
            )
