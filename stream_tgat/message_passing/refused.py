"""A record that cannot be used, and why."""

from dataclasses import dataclass
from typing import Any

from stream_tgat.wire import Headers


@dataclass(frozen=True)
class Refused:
    """A record that an agent read and could not use. written: unix seconds at which it was, by what Kafka keeps"""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    reason: str
    written: float | None = None

    @classmethod
    def of(cls, record: Any, reason: str) -> "Refused":
        """A record of a Kafka client, and why it cannot be used."""
        place = record.topic, record.partition, record.offset
        return cls(*place, record.key, record.value, record.headers, reason, record.timestamp)
