"""A Kafka client on logs in memory, put in place of the thread of a consumer, stock or ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import faust
from aiokafka.errors import OffsetOutOfRangeError
from faust.types import TP

from stream_tgat.transport import Application
from stream_tgat.transport.client import End, Fetch

NUMBERS = TP("numbers", 0)


@dataclass(frozen=True)
class FakeRecord:
    """One record, as aiokafka has it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = b"x"
    timestamp: int = 0
    timestamp_type: int = 0
    headers: tuple[Any, ...] = ()
    checksum: None = None
    serialized_key_size: int = 0
    serialized_value_size: int = 1


class FakeThread:
    """The consumer's thread: positions move when a fetch is taken, as in aiokafka, whatever becomes of it."""

    def __init__(self, logs: Mapping[TP, Iterable[int]], ends: Mapping[TP, int] | None = None) -> None:
        self.logs = {tp: sorted(offsets) for tp, offsets in logs.items()}
        self.ends = {tp: max(offsets, default=-1) + 1 for tp, offsets in self.logs.items()} | dict(ends or {})
        self.positions = dict.fromkeys(self.logs, 0)
        self.committed: dict[TP, int | None] = dict.fromkeys(self.logs)
        self.commits: dict[TP, int] = {}
        self.fetch_size = 4
        self.value = b"x"
        self.whole = True
        # Where logs begin, if records were deleted. Without these an offset in front of the first record is a hole.
        self.begins: dict[TP, int] = {}
        # Where reading ends, of partitions with an open transaction.
        self.readable: dict[TP, int] = {}
        # When the last fetch was answered, unix seconds.
        self.fetched_at: float | None = None

    def take(self, active: Iterable[TP]) -> dict[TP, list[FakeRecord]]:
        """What the client has for partitions; its positions move behind it."""
        found = {}
        for tp in active:
            log = [offset for offset in self.logs.get(tp, ()) if offset < self._end_of(tp)]
            offsets = [offset for offset in log if offset >= self.positions[tp]][: self.fetch_size]
            if offsets:
                found[tp] = [FakeRecord(tp.topic, tp.partition, offset, value=self.value) for offset in offsets]
            if tp in self.positions:
                # Behind the last record there may be control records, which nobody gets to see.
                more = [offset for offset in log if offset > (offsets[-1] if offsets else self.positions[tp])]
                self.positions[tp] = offsets[-1] + 1 if more else self._end_of(tp)
        return found

    async def getmany(self, active: set[TP], timeout: float) -> Any:
        """A fetch."""
        gone = {tp: at for tp in active if (at := self.positions.get(tp, 0)) < self.begins.get(tp, 0)}
        if gone:
            raise OffsetOutOfRangeError(gone)
        await asyncio.sleep(0)
        found, self.fetched_at = self.take(active), time.time()
        if not found:
            await asyncio.sleep(min(timeout, 0.005))
        return Fetch(found, {tp: self.positions[tp] for tp in active if tp in self.positions}) if self.whole else found

    async def seek_to_committed(self) -> dict[TP, int | None]:
        """Seek where an offset is committed, a round trip each."""
        for tp, offset in self.committed.items():
            await asyncio.sleep(0.01)
            if offset:
                self.positions[tp] = offset
        await asyncio.sleep(0.01)
        return dict(self.committed)

    async def seek_wait(self, offsets: Mapping[TP, int]) -> None:
        """Seek."""
        await asyncio.sleep(0)
        self.positions.update({TP(tp.topic, tp.partition): offset for tp, offset in offsets.items()})

    async def commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit."""
        self.commits.update(offsets)
        return True

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        """Where logs begin."""
        return {tp: self.begins.get(tp, min(self.logs[tp], default=self.ends[tp])) for tp in tps}

    async def highwaters(self, *tps: TP) -> dict[TP, int]:
        """Where logs end."""
        return {tp: self.ends[tp] for tp in tps}

    def assignment(self) -> set[TP]:
        """All partitions."""
        return set(self.logs)

    def highwater(self, tp: TP) -> int:
        """Where a log ends."""
        return self.ends[tp]

    def end(self, tp: TP) -> End | None:
        """Where a log ended at the last fetch."""
        return None if self.fetched_at is None else End(self.ends[tp], self._end_of(tp), self.fetched_at)

    def client_position(self, tp: TP) -> int | None:
        """What would be fetched next."""
        return self.positions.get(tp)

    def generation(self) -> int:
        """The coordinator's generation."""
        return 1

    def _end_of(self, tp: TP) -> int:
        return self.readable.get(tp, self.ends[tp])


class FakeFetcher:
    """What the consumer's loop is given to know when to stop."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def maybe_start(self) -> None:
        """Runs already."""


class Rig:
    """An application, stock or ours, whose consumer reads a fake client and whose stream nobody reads yet."""

    def __init__(self, thread: FakeThread, *, stock: bool = False, **settings: Any) -> None:
        make: Any = faust.App if stock else Application
        self.app = make("rig", broker="kafka://localhost:1", **{"store": "rocksdb://"} | settings)
        self.thread = thread
        thread.whole = not stock
        self.consumer = self.app.consumer
        self.consumer._thread.thread_loop.close()
        self.consumer._thread = thread
        self.topic = self.app.topic("numbers", key_type=bytes, value_type=bytes, key_serializer="raw")
        self.topic = self.topic.clone(value_serializer="raw")
        self.channel = self.topic.clone(is_iterator=True)
        topics = self.app.topics
        topics._topics.add(self.channel)
        topics._acking_topics.add("numbers")
        for tp in thread.logs:
            topics._tp_index[tp].add(self.channel)
        topics._update_callback_map()
        self.app.consumer_generation_id = 1
        self.consumer._set_active_tps(set(thread.logs))
        self.consumer.resume_flow()
        self.app.flow_control.resume()
        self.fetcher = FakeFetcher()
        self.app.__dict__["_fetcher"] = self.fetcher

    @property
    def queue(self) -> Any:
        """The stream's queue."""
        return self.channel.queue

    def received(self, tp: TP = NUMBERS) -> list[int]:
        """Take all offsets out of the queue, and keep those of a partition."""
        events = [self.queue.get_nowait() for _ in range(self.queue.qsize())]
        self.messages = [event.message for event in events]
        return [message.offset for message in self.messages if message.tp == tp]

    async def fetch_for(self, seconds: float) -> None:
        """Run the consumer's loop for a while."""
        loop = asyncio.ensure_future(self.consumer._drain_messages(self.fetcher))
        await asyncio.sleep(seconds)
        self.fetcher._stopped.set()
        await asyncio.wait_for(loop, 3)
        self.fetcher._stopped.clear()
