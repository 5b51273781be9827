"""A data set as the records that a producer would have sent, in the order in which each fact became known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stream_tgat.wire import InputTopic

WATERMARK_HEADER = "watermark"


@dataclass(frozen=True)
class StreamRecord:
    """One record to produce.

    topic: "interactions", "labels" or "nodes" (without the topology's prefix)
    key: bytes that choose the partition; None for punctuation, which goes to every partition
    value: JSON of the wire; None for punctuation
    time: unix seconds at which the record becomes known; records come in this order
    headers: as Kafka takes them
    """

    topic: InputTopic
    key: bytes | None
    value: bytes | None
    time: float
    headers: tuple[tuple[str, bytes], ...] = ()


def record(topic: InputTopic, key: str, value: Mapping[str, Any], time: float, known_at: bool = False) -> StreamRecord:
    """A record whose value is the JSON of `value`; with `known_at` it also says its time, in the field of that name."""
    content = {**value, "known_at": time} if known_at else value
    return StreamRecord(topic, key.encode(), orjson.dumps(content), time)


def punctuation(time: float, topic: InputTopic = "interactions") -> StreamRecord:
    """Says that nothing before `time` follows in the topic."""
    return StreamRecord(topic, None, None, time, ((WATERMARK_HEADER, repr(time).encode()),))
