"""Sending many records at once to a partition that the caller names.

`topic.send(partition=)` of Faust ignores the partition, and its one future per record costs more than the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stream_tgat.errors import BatchTooLargeError
from stream_tgat.transport.producer import first_offset

BATCH_BYTES = 900_000
"""Bytes of one batch of outputs: below the brokers' default limit of 1,048,588."""

Headers = Sequence[tuple[str, bytes]]


class Record(NamedTuple):
    """One record to send; without a timestamp the time of sending is used."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Outbox:
    """Sends records in batches through the application's producer."""

    def __init__(self, app: Any, batch_bytes: int = BATCH_BYTES) -> None:
        self._app = app
        self.batch_bytes = batch_bytes

    async def deliver(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Send records to a partition in their order and wait until the broker has them all.

        Returns the offset of the last one (-1 if there are none). Awaited together (`asyncio.gather`), deliveries
        to different partitions travel together. Raises BatchTooLargeError, or another error of ours, if the brokers
        refuse one for good.
        """
        producer = self._app.producer.kafka
        sent = [
            (await producer.send_batch(batch, topic, partition=partition), batch)
            for batch in self._batches(topic, records)
        ]
        firsts = await gather_deliveries(
            *(first_offset(producer, future, batch, topic, partition) for future, batch in sent)
        )
        return firsts[-1] + sent[-1][1].record_count() - 1 if sent else -1

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(await self._app.producer.kafka.partitions_for(topic))

    def _batches(self, topic: str, records: Sequence[Record]) -> Iterator[Any]:
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

    def _new_batch(self, topic: str, first: Record) -> Any:
        size = len(first.key or b"") + len(first.value or b"")
        if size > self._app.conf.producer_max_request_size:
            raise BatchTooLargeError(
                f"a record of {size} bytes for {topic} is above producer_max_request_size; send it in parts"
            )
        return self._app.producer.new_batch(self.batch_bytes)


def _append(batch: Any, record: Record) -> bool:
    return (
        batch.append(timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers))
        is not None
    )


async def gather_deliveries(*deliveries: Any) -> list[Any]:
    """Wait for several deliveries; if one fails, the first error is raised after all have ended."""
    results = await asyncio.gather(*deliveries, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)
