"""kafka-python's clients, for a topology's brokers; `settings` are the client's own. Whoever asks for one closes it."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import LeaderNotAvailableError

from stream_tgat.brokers.reaching import options_of
from stream_tgat.topology import Kafka

READ_COMMITTED: Final = "read_committed"
"""How every consumer reads: what a producer has taken back was never there, and the log ends before the first
transaction that is still open, at what Kafka calls the last stable offset."""


_LEADERLESS_PAUSE_S: Final = 0.2


def consumer(kafka: Kafka, **settings: Any) -> KafkaConsumer:
    """A consumer of what is committed; AccessError if the brokers refuse it."""
    return _Consumer(**options_of(kafka), isolation_level=READ_COMMITTED, **settings)


def written_at(record: Any) -> float:
    """When a consumed record was written, by what Kafka keeps with it: unix seconds."""
    return float(record.timestamp) / 1e3


def producer(kafka: Kafka, **settings: Any) -> KafkaProducer:
    """A producer; AccessError if the brokers refuse it."""
    return KafkaProducer(**options_of(kafka), **settings)


def admin_client(kafka: Kafka, **settings: Any) -> KafkaAdminClient:
    """What creates and describes topics and groups; AccessError if the brokers refuse it."""
    return KafkaAdminClient(**options_of(kafka), **settings)


_Offsets = dict[TopicPartition, int]


class _Consumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
    """Waits for partitions that no broker leads for now, where kafka-python's raises KeyError.

    LeaderNotAvailableError, which names the partition, when that lasts longer than the timeout (default: that of a
    request).
    """

    def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None) -> _Offsets:
        return self._once_led(super().beginning_offsets, partitions, timeout_ms)

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None) -> _Offsets:
        return self._once_led(super().end_offsets, partitions, timeout_ms)

    def _once_led(
        self,
        ask: Callable[[Iterable[TopicPartition], float], _Offsets],
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None,
    ) -> _Offsets:
        limit_ms: float = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1e3
        while True:
            try:
                return ask(partitions, limit_ms)
            except KeyError as missing:
                (place,) = missing.args
                if time.monotonic() > deadline:
                    raise LeaderNotAvailableError(f"no broker leads {place.topic}/{place.partition}") from None
            time.sleep(_LEADERLESS_PAUSE_S)
