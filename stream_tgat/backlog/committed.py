"""How far the partitions of the workers are, as their own state says: the last record of each commit."""

from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition

from stream_tgat.errors import TopicError
from stream_tgat.message_passing.progress import RESERVED_KEY, PartitionProgress
from stream_tgat.topology import Topology

_POLL_MS: Final = 500
_ATTEMPTS: Final = 20


def partition_progress(
    topology: Topology, consumer: KafkaConsumer, as_of: float | None = None
) -> dict[int, PartitionProgress]:
    """What each partition has committed last; those without a state are left out.

    consumer: without a group; what it was assigned is replaced   as_of: unix seconds; what it had committed before
    Raises TopicError if the changelog gives no answer.
    """
    topic = topology.changelog
    if topic not in consumer.topics():
        return {}
    places = [TopicPartition(topic, partition) for partition in range(topology.kafka.partitions)]
    ends = {place: end for place, end in consumer.end_offsets(places).items() if end > 0}
    if as_of is not None:
        later = consumer.offsets_for_times(dict.fromkeys(ends, int(1000 * as_of)))
        ends |= {place: first.offset for place, first in later.items() if first is not None}
        ends = {place: end for place, end in ends.items() if end > 0}
    consumer.assign(list(ends))
    for place, end in ends.items():
        consumer.seek(place, end - 1)
    newest: dict[int, Any] = {}
    for _ in range(_ATTEMPTS):
        if len(newest) == len(ends):
            break
        for place, records in consumer.poll(timeout_ms=_POLL_MS).items():
            newest.setdefault(place.partition, records[-1 if as_of is None else 0])
    else:
        raise TopicError(f"the newest records of {topic!r} cannot be read; are its brokers well?")
    return {
        partition: PartitionProgress.decode(record.value)
        for partition, record in newest.items()
        if record.key == RESERVED_KEY
    }
