"""Sends an ordered log into the topics as fast as a broker takes it, and says how far it is.

With `clock = "event"` a replay is exact only if every worker knows when nothing older can come, whatever partition it
reads; so the replayer punctuates `interactions` as it goes. By the wall clock a worker needs no such word, and the
topic holds nothing but what was to be sent. `replay`, the demo and the tests produce with it; it knows no file formats.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from stream_tgat.brokers import reach
from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.errors import DataError, TopicError
from stream_tgat.topology import Topics, Topology
from stream_tgat.transport import clients
from stream_tgat.wire import punctuation_headers

if TYPE_CHECKING:
    from aiokafka.producer.message_accumulator import BatchBuilder

# Below the topics' default limit of 1 MB by more than the header of a batch.
_BATCH_BYTES = 512 * 1024


def partition_of(key: bytes, partitions: int) -> int:
    """Where a key belongs: the same for every client and run, and the rule that the workers use for nodes."""
    return zlib.crc32(key) % partitions


class Replayer:
    """Produces stream records in order.

    producer: started, idempotent, with the batch size of `open_replayer`.
    topics: full names of the topics.
    punctuates: whether to say how far it is; a punctuation among the records goes along in any case.
    punctuate_every, punctuate_every_s: the most events, and the most seconds, between two punctuations.
    allow_late: send an event that is older than the one before, instead of raising DataError; workers mark it late.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        topics: Topics,
        *,
        punctuates: bool = True,
        punctuate_every: int = 1000,
        punctuate_every_s: float = 0.05,
        allow_late: bool = False,
    ) -> None:
        self.sent = 0
        self.late = 0
        self.watermark = self._newest = float("-inf")
        self._producer = producer
        self._names = {"interactions": topics.interactions, "labels": topics.labels, "nodes": topics.nodes}
        self._punctuates, self._allow_late = punctuates, allow_late
        self._every, self._every_s = punctuate_every, punctuate_every_s
        self._partitions: dict[str, int] = {}
        self._since = 0
        self._punctuated_at = time.monotonic()
        self._unacknowledged: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None

    async def send(self, records: Iterable[StreamRecord]) -> None:
        """Produce records in the given order, which is that of time among interactions.

        Returns when the producer has taken them, waiting while it is behind; `flush` waits for the broker.
        """
        batches = _Batches(self._producer)
        for record in records:
            name = self._names[record.topic]
            partitions = self._partitions.get(name) or await self._count(name)
            if record.key is None:
                self._note_punctuation(record)
                for partition in range(partitions):
                    batches.append(name, partition, record)
                continue
            if record.topic == "interactions":
                self._note(record)
                self._since += 1
            batches.append(name, partition_of(record.key, partitions), record)
            self.sent += 1
            if self._since >= self._every:
                await self._punctuate_into(batches)
        if self._since and time.monotonic() - self._punctuated_at >= self._every_s:
            await self._punctuate_into(batches)
        await self._submit(batches)

    async def punctuate(self, watermark: float | None = None) -> None:
        """Tell every partition of `interactions` that nothing before `watermark` will follow.

        watermark: unix seconds; None takes the time of the last event sent.
        """
        batches = _Batches(self._producer)
        if watermark is not None:
            self.watermark = max(self.watermark, watermark)
        await self._punctuate_into(batches)
        await self._submit(batches)

    async def flush(self) -> None:
        """Wait until the broker has everything; raises if it refused something."""
        await asyncio.gather(*self._unacknowledged, return_exceptions=True)
        await asyncio.sleep(0)  # the callbacks of the futures run after who waits for them
        self._raise_failure()

    async def finish(self, watermark: float | None = None) -> None:
        """Punctuate a last time, at `watermark` or just beyond the last event, so that nothing is left; flush."""
        await self.punctuate(nextafter(self._newest, inf) if watermark is None else watermark)
        await self.flush()

    async def _punctuate_into(self, batches: _Batches) -> None:
        if not self._punctuates or self.watermark == float("-inf"):
            return
        name = self._names["interactions"]
        partitions = self._partitions.get(name) or await self._count(name)
        headers = tuple(punctuation_headers(self.watermark))
        record = StreamRecord("interactions", None, None, self.watermark, headers)
        for partition in range(partitions):
            batches.append(name, partition, record)
        self._since = 0
        self._punctuated_at = time.monotonic()

    def _note(self, record: StreamRecord) -> None:
        self._newest = max(self._newest, record.time)
        if record.time < self.watermark:
            if not self._allow_late:
                raise DataError(
                    f"an event at {record.time!r} comes after one at {self.watermark!r}: a replay must be in the order "
                    "of time; sort it first, or allow late events"
                )
            self.late += 1
        else:
            self.watermark = record.time

    def _note_punctuation(self, record: StreamRecord) -> None:
        if record.topic == "interactions":
            self.watermark = max(self.watermark, record.time)
            self._since = 0
            self._punctuated_at = time.monotonic()

    async def _submit(self, batches: _Batches) -> None:
        self._raise_failure()
        for name, partition, batch in batches.take():
            future = await self._producer.send_batch(batch, name, partition=partition)
            self._unacknowledged.add(future)
            future.add_done_callback(self._on_acknowledged)

    def _on_acknowledged(self, future: asyncio.Future[Any]) -> None:
        self._unacknowledged.discard(future)
        if not future.cancelled() and self._failure is None:
            self._failure = future.exception()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise TopicError(f"the broker refused a record: {self._failure}") from self._failure

    async def _count(self, name: str) -> int:
        # Not the producer's partitions_for, which waits most of a minute for a topic that does not exist.
        cluster = await self._producer.client.fetch_all_metadata()
        found = cluster.partitions_for_topic(name)
        if not found:
            raise TopicError(f"topic {name} is missing; create it with: faust -A stream_tgat topics create")
        self._partitions[name] = len(found)
        return len(found)


class _Batches:
    """Record batches under construction, by topic and partition, in the order in which they were filled."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer
        self._full: list[tuple[str, int, BatchBuilder]] = []
        self._open: dict[tuple[str, int], BatchBuilder] = {}

    def append(self, name: str, partition: int, record: StreamRecord) -> None:
        batch = self._open.get((name, partition))
        if batch is None:
            batch = self._open[name, partition] = self._producer.create_batch()
        headers = list(record.headers)
        if batch.append(timestamp=None, key=record.key, value=record.value, headers=headers) is None:
            self._full.append((name, partition, batch))
            batch = self._open[name, partition] = self._producer.create_batch()
            batch.append(timestamp=None, key=record.key, value=record.value, headers=headers)

    def take(self) -> Iterator[tuple[str, int, BatchBuilder]]:
        yield from self._full
        for (name, partition), batch in self._open.items():
            yield name, partition, batch


@asynccontextmanager
async def open_replayer(topology: Topology, **settings: Any) -> AsyncIterator[Replayer]:
    """A replayer on the topology's broker; `settings` are those of `Replayer`. Flushes and closes at the end."""
    reach(topology.kafka)
    producer = clients.producer(topology.kafka, enable_idempotence=True, max_batch_size=_BATCH_BYTES)
    try:
        await producer.start()
        yield Replayer(producer, topology.topics, punctuates=topology.time.clock == "event", **settings)
    finally:
        await producer.stop()
