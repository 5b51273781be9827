"""What a consumer of the output topics has received; repeats are known by their id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from stream_tgat.wire import OutputValues


@dataclass
class Outputs:
    """What a consumer has received: the first of each id, and how the repeats compare."""

    embeddings: dict[str, dict[str, Any]] = field(default_factory=dict)
    alerts: dict[str, dict[str, Any]] = field(default_factory=dict)
    dead_letters: dict[tuple[str, str, str], dict[str, str]] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)
    repeats: int = 0
    repeat_difference: float = 0.0

    def add(self, kind: str, record: Any, values: OutputValues) -> None:
        """One record of a topic."""
        if kind == "dead_letters":
            headers = {name: value.decode() for name, value in record.headers}
            source = headers["source-topic"], headers["source-partition"], headers["source-offset"]
            self.dead_letters[source] = headers
            return
        content = values.fields(record.value, record.headers)
        seen: dict[str, dict[str, Any]] = getattr(self, kind)
        known = seen.get(content["id"])
        if known is None:
            seen[content["id"]] = content
            if kind == "embeddings":
                node = f"{content.get('kind')}:{content['node']}"
                self.order.setdefault(node, []).append(content["id"])
        else:
            self.repeats += 1
            self.repeat_difference = max(self.repeat_difference, _difference(known, content))


def _difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Between two outputs of one id; everything but numbers that were computed must be equal."""
    computed = ("embedding", "predictions", "probability", "because")
    for name in one.keys() | other.keys():
        if name not in computed:
            assert one.get(name) == other.get(name), (one["id"], name)
    if "embedding" in one:
        differences = [np.abs(np.array(one["embedding"]) - np.array(other["embedding"])).max()]
        differences += [abs(value - other["predictions"][head]) for head, value in one["predictions"].items()]
        return float(max(differences))
    return float(abs(one["probability"] - other["probability"]))


def records_of(servers: str, topic: str) -> dict[int, list[Any]]:
    """All records of a topic as they are now, by partition, in order."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=16 << 20, fetch_max_wait_ms=50
    )
    try:
        partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found: dict[int, list[Any]] = {tp.partition: [] for tp in partitions}
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for tp, records in consumer.poll(timeout_ms=200).items():
                found[tp.partition] += records
        return found
    finally:
        consumer.close()
