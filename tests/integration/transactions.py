"""Records that a producer commits, takes back or leaves open."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from kafka import KafkaProducer


@contextmanager
def transactional(servers: str) -> Iterator[KafkaProducer]:
    """A producer with a transactional id of its own; what it leaves open, it takes back when the block ends."""
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=uuid.uuid4().hex, linger_ms=0)
    producer.init_transactions()
    try:
        yield producer
    finally:
        producer.close()


def begin(producer: KafkaProducer, topic: str, values: Sequence[bytes], partitions: Sequence[int] = (0,)) -> None:
    """Write in a transaction that stays open, in turns over partitions; the brokers have the records."""
    producer.begin_transaction()
    sent = [
        producer.send(topic, value=value, partition=partition)
        for value, partition in zip(values, cycle(partitions), strict=False)
    ]
    producer.flush()
    for each in sent:
        each.get(20)


def commit(producer: KafkaProducer, topic: str, values: Sequence[bytes], partitions: Sequence[int] = (0,)) -> None:
    """Write a transaction that counts."""
    begin(producer, topic, values, partitions)
    producer.commit_transaction()


def abort(producer: KafkaProducer, topic: str, values: Sequence[bytes], partitions: Sequence[int] = (0,)) -> None:
    """Write a transaction that is taken back: its records stay in the log, and do not count."""
    begin(producer, topic, values, partitions)
    producer.abort_transaction()
