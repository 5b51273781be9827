"""kafka-python's clients, for a topology's brokers; `settings` are the client's own. Whoever asks for one closes it."""

from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

from stream_tgat.brokers.reaching import options_of
from stream_tgat.topology import Kafka

READ_COMMITTED: Final = "read_committed"
"""How every consumer reads: what a producer has taken back was never there, and the log ends before the first
transaction that is still open, at what Kafka calls the last stable offset."""


def consumer(kafka: Kafka, **settings: Any) -> KafkaConsumer:
    """A consumer of what is committed; AccessError if the brokers refuse it."""
    return KafkaConsumer(**options_of(kafka), isolation_level=READ_COMMITTED, **settings)


def written_at(record: Any) -> float:
    """When a consumed record was written, by what Kafka keeps with it: unix seconds."""
    return float(record.timestamp) / 1e3


def producer(kafka: Kafka, **settings: Any) -> KafkaProducer:
    """A producer; AccessError if the brokers refuse it."""
    return KafkaProducer(**options_of(kafka), **settings)


def admin_client(kafka: Kafka, **settings: Any) -> KafkaAdminClient:
    """What creates and describes topics and groups; AccessError if the brokers refuse it."""
    return KafkaAdminClient(**options_of(kafka), **settings)
