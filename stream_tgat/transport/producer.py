"""The producer: Faust's, idempotent, with access to whole batches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.admin import DescribeConfigsRequest
from faust.transport.drivers import aiokafka as driver

from stream_tgat.errors import AccessError, BatchTooLargeError, StreamTgatError, TopicError

_LIMIT: Final = "max.message.bytes"
_TOPIC_RESOURCE: Final = 2


class Parcel(NamedTuple):
    """A closed batch, and where it goes."""

    topic: str
    partition: int
    batch: BatchBuilder


class BulkProducer(driver.Producer):
    """Faust's producer, with what sending whole batches needs.

    It is idempotent: a batch whose acknowledgement got lost is not appended a second time when it is sent again, which
    the changelog would take for another writer.
    """

    @property
    def kafka(self) -> Any:
        """The aiokafka producer below; raises NotReady before the start."""
        return self._ensure_producer()

    def new_batch(self, capacity_bytes: int) -> BatchBuilder:
        """An empty batch with its own capacity; only the first record may be larger than that."""
        compression = self.kafka._message_accumulator._compression_type  # noqa: SLF001
        return BatchBuilder(capacity_bytes, compression)

    def _settings_extra(self) -> Mapping[str, Any]:
        return {**super()._settings_extra(), "acks": "all", "enable_idempotence": True}


async def first_offsets(kafka: Any, parcels: Sequence[Parcel]) -> list[int]:
    """Send batches together, those for one partition in their order; the offset at which each begins.

    kafka: the aiokafka producer. Without a task for each, which would cost more than sending it.
    When all have ended, the first failure is raised; a refusal that sending again would not change as an error of ours,
    which says what to do.
    """
    sent: list[asyncio.Future[Any]] = []
    failure: Exception | None = None
    for parcel in parcels:
        try:
            sent.append(await kafka.send_batch(parcel.batch, parcel.topic, partition=parcel.partition))
        except Exception as error:  # noqa: BLE001
            # Raised when those before it have ended.
            failure = error
            break
    try:
        for future in sent:
            # One after the other: those of a request end together, and who waits for all is called by each.
            if not future.done():
                await asyncio.wait([future])
    except asyncio.CancelledError:
        for future in sent:
            future.cancel()
        raise
    for future, parcel in zip(sent, parcels, strict=False):
        refusal = future.exception()
        if isinstance(refusal, BrokerResponseError):
            raise await _explained(kafka, refusal, parcel) from refusal
    if failure is not None:
        raise failure
    return [int(future.result().offset) for future in sent]


async def _explained(kafka: Any, refusal: BrokerResponseError, parcel: Parcel) -> StreamTgatError:
    topic, partition, batch = parcel
    what = f"a batch of {batch.size()} bytes ({batch.record_count()} records)"
    if isinstance(refusal, MessageSizeTooLargeError | RecordListTooLargeError):
        limit = await _limit_of(kafka, topic)
        return BatchTooLargeError(
            f"{topic}/{partition} does not take {what}: {_LIMIT} of the topic is "
            f"{'lower' if limit is None else limit}. Raise it, as `faust -A stream_tgat topics create` does, and "
            "start the worker again: nothing is lost."
        )
    if isinstance(refusal, TopicAuthorizationFailedError):
        return AccessError(
            f"The brokers do not let this client write to {topic}: grant it that, and start the worker again; nothing "
            "is lost."
        )
    return TopicError(
        f"{topic}/{partition} does not take {what}: {refusal.message} ({refusal.description}). Correct that, and "
        "start the worker again: nothing is lost."
    )


async def _limit_of(kafka: Any, topic: str) -> int | None:
    """What a topic's `max.message.bytes` is now; None if the brokers do not tell."""
    request = DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, [_LIMIT])])
    try:
        response = await kafka.client.send(kafka.client.get_random_node(), request)
    except KafkaError:
        # It is only told for convenience; that it is too low is known.
        return None
    ((*_, entries),) = response.resources
    return next((int(value) for name, value, *_ in entries if name == _LIMIT), None)
