"""Sending many records at once to a partition that the caller names.

`topic.send(partition=)` of Faust ignores the partition, and its one future per record costs more than the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stream_tgat.errors import BatchTooLargeError
from stream_tgat.transport.producer import Parcel, first_offsets

BATCH_BYTES = 900_000
"""Bytes of one batch of outputs: below the brokers' default limit of 1,048,588."""

RecordHeaders = Sequence[tuple[str, bytes]]


class OutgoingRecord(NamedTuple):
    """One record to send; without a timestamp the time of sending is used."""

    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()
    timestamp_ms: int | None = None


class Delivery(NamedTuple):
    """Records for one partition of a topic, in order."""

    topic: str
    partition: int
    records: Sequence[OutgoingRecord]


class Outbox:
    """Sends records in batches through the application's producer."""

    def __init__(self, app: Any, batch_bytes: int = BATCH_BYTES) -> None:
        self._app = app
        self.batch_bytes = batch_bytes

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[int]:
        """Send records to partitions, each in their order, and wait until the brokers have them all.

        Returns the offset of the last record of each delivery (-1 if it has none). What is delivered together travels
        together. If one fails, the first error is raised after all have ended: BatchTooLargeError, or another error of
        ours, if the brokers refuse it for good.
        """
        batches = [list(self._batches(each.topic, each.records)) for each in deliveries]
        parcels = [
            Parcel(each.topic, each.partition, batch)
            for each, mine in zip(deliveries, batches, strict=True)
            for batch in mine
        ]
        firsts = iter(await first_offsets(self._app.producer.kafka, parcels))
        last = []
        for mine in batches:
            offset = -1
            for batch in mine:
                offset = next(firsts) + batch.record_count() - 1
            last.append(offset)
        return last

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(await self._app.producer.kafka.partitions_for(topic))

    def _batches(self, topic: str, records: Sequence[OutgoingRecord]) -> Iterator[Any]:
        batch = None
        for record in records:
            while batch is None or not _append(batch, record):
                if batch is not None:
                    batch.close()
                    yield batch
                batch = self._new_batch(topic, record)
        if batch is not None:
            batch.close()
            yield batch

    def _new_batch(self, topic: str, first: OutgoingRecord) -> Any:
        size = len(first.key or b"") + len(first.value or b"")
        if size > self._app.conf.producer_max_request_size:
            raise BatchTooLargeError(
                f"a record of {size} bytes for {topic} is above producer_max_request_size; send it in parts"
            )
        return self._app.producer.new_batch(self.batch_bytes)


def _append(batch: Any, record: OutgoingRecord) -> bool:
    return (
        batch.append(timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers))
        is not None
    )
