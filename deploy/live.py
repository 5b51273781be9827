"""What the demo measures while it runs: a consumer of embeddings, alerts and dead letters, and what they add up to."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import orjson
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from numpy.typing import NDArray

from stream_tgat.brokers import admin_client, consumer
from stream_tgat.topology import Kafka, Topology

LATENCY_SAMPLE = 200_000


@dataclass
class Tally:
    """Everything that came out so far. Written by the watching thread, read by the screen."""

    embeddings: int = 0
    repeats: int = 0
    dead_letters: int = 0
    alerts: int = 0
    newest_alerts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=6))
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCY_SAMPLE))
    arrived: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCY_SAMPLE))
    models: Counter[int] = field(default_factory=Counter)
    first_at: float = 0.0
    last_at: float = 0.0
    newest_event: float = 0.0
    predictions: dict[tuple[str, float], dict[str, list[float]]] = field(default_factory=dict)

    def latency_ms(self, percentile: float, newest: int | None = None) -> float | None:
        """A percentile of produce-to-embedding latency, over the `newest` embeddings or all; None before the first."""
        return self._percentile(list(islice(reversed(self.latencies_s), newest)), percentile)

    def latency_ms_between(self, begin: float, end: float, percentile: float) -> float | None:
        """The same over what arrived from `begin` to `end`, by the clock."""
        return self._percentile([latency for at, latency in self._arrivals() if begin <= at <= end], percentile)

    def latency_ms_except(self, begin: float, end: float, percentile: float) -> float | None:
        """The same over all that arrived at other times."""
        return self._percentile([latency for at, latency in self._arrivals() if not begin <= at <= end], percentile)

    def _arrivals(self) -> Iterator[tuple[float, float]]:
        return zip(tuple(self.arrived), tuple(self.latencies_s), strict=False)

    @staticmethod
    def _percentile(sample: list[float], percentile: float) -> float | None:
        return 1e3 * float(np.percentile(sample, percentile)) if sample else None


class Watcher(threading.Thread):
    """Reads the output topics from their beginning until it is stopped.

    Embeddings count from when the broker has written them (see `stamped_by_the_broker`), which is what a consumer
    elsewhere waits for. When this thread comes round to them, beside a screen and a producer, says nothing of the
    stream.

    produced_at: {interaction id: wall clock at which it was produced}, filled by whoever produces. Only interactions
    in it count towards latency and predictions.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(name="watcher", daemon=True)
        self.topology = topology
        self.produced_at: dict[str, float] = {}
        self.tally = Tally()
        self.error: BaseException | None = None
        self._seen: set[str] = set()
        self._done = threading.Event()

    def run(self) -> None:
        """Consume until `stop`."""
        try:
            self._consume()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.error = error

    def stop(self) -> None:
        """Stop consuming and wait for the thread."""
        self._done.set()
        self.join(10.0)

    def _consume(self) -> None:
        topics = self.topology.topics
        client = consumer(
            self.topology.kafka,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # The broker says when something was written, so nothing is gained by being told at once: each answer costs
            # it, the worker and the producer as much as a hundred embeddings.
            fetch_min_bytes=256 << 10,
            fetch_max_wait_ms=200,
            fetch_max_bytes=8 << 20,
            max_poll_records=4000,
        )
        try:
            wanted = [topics.embeddings, topics.alerts, topics.dead_letters]
            client.assign(
                [TopicPartition(topic, p) for topic in wanted for p in sorted(client.partitions_for_topic(topic) or ())]
            )
            read = {
                topics.embeddings: self._embedding,
                topics.alerts: self._alert,
                topics.dead_letters: self._dead_letter,
            }
            while not self._done.is_set():
                for partition, records in client.poll(timeout_ms=100).items():
                    for record in records:
                        # The broker cuts off what is below a millisecond.
                        read[partition.topic](record.value, 1e-3 * (record.timestamp + 0.5))
        finally:
            client.close()

    def _embedding(self, value: bytes, written: float) -> None:
        record = orjson.loads(value)
        if record["id"] in self._seen:
            self.tally.repeats += 1
            return
        self._seen.add(record["id"])
        tally = self.tally
        tally.embeddings += 1
        tally.models[record["model"]] += 1
        tally.first_at = min(tally.first_at or written, written)
        tally.last_at = max(tally.last_at, written)
        tally.newest_event = max(tally.newest_event, record["timestamp"])
        produced = self.produced_at.get(record["interaction"])
        if produced is None:
            return
        tally.latencies_s.append(written - produced)
        tally.arrived.append(written)
        if record["predictions"]:
            target = tally.predictions.setdefault((record["node"], record["timestamp"]), {})
            for head, probability in record["predictions"].items():
                target.setdefault(head, []).append(probability)

    def _alert(self, value: bytes, _written: float) -> None:
        record = orjson.loads(value)
        if record["id"] in self._seen:
            return
        self._seen.add(record["id"])
        self.tally.alerts += 1
        self.tally.newest_alerts.appendleft(record)

    def _dead_letter(self, _value: bytes, _written: float) -> None:
        self.tally.dead_letters += 1


def stamped_by_the_broker(kafka: Kafka, topic: str) -> None:
    """Let the broker note in each record of a topic when it has written it."""
    admin = admin_client(kafka)
    try:
        settings = {"message.timestamp.type": "LogAppendTime"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])
    finally:
        admin.close()


def prequential(
    tally: Tally, head: str, nodes: list[str], times: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The probability that was published for each target at its own time, before its label was known.

    A basket is many interactions at one time, each with a prediction; their mean is the basket's.
    nodes, times: of the targets, [n]. Returns (probability [n], NaN where there was none; whether there was one [n]).
    """
    scores = np.full(len(nodes), np.nan)
    for at, (node, moment) in enumerate(zip(nodes, times.tolist(), strict=True)):
        published = tally.predictions.get((node, moment), {}).get(head)
        if published:
            scores[at] = float(np.mean(published))
    return scores, ~np.isnan(scores)
