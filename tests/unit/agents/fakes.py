"""What agents are given, without brokers: everything they do is noted in one list, in order."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from aiokafka.errors import KafkaError
from faust.types import TP

from stream_tgat.brokers import TopicDescription
from stream_tgat.errors import BatchTooLargeError, FencedError, StateError
from stream_tgat.rocks import Change
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.transport.changelog import Changelog
from stream_tgat.transport.outbox import Delivery, OutgoingRecord
from stream_tgat.transport.tenure import Tenure


@dataclass
class Message:
    """A consumed record."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Any = None
    timestamp: float = 2_000_000_000.0

    @property
    def tp(self) -> TP:
        return TP(self.topic, self.partition)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))


@dataclass
class FakeOutbox:
    happened: list[tuple[Any, ...]]
    counts: dict[str, int]
    fails_on: str = ""
    fails_with: BaseException | None = None
    sent: dict[tuple[str, int], list[OutgoingRecord]] = field(default_factory=dict)
    # Where the log of a topic ends before the first delivery.
    begin: dict[str, int] = field(default_factory=dict)

    async def deliver(self, deliveries: Sequence[Delivery]) -> list[int]:
        last = []
        for topic, partition, records in deliveries:
            if topic == self.fails_on:
                continue
            mine = self.sent.setdefault((topic, partition), [])
            mine += records
            self.happened.append(("delivered", topic, partition))
            last.append(self.begin.get(topic, 0) + len(mine) - 1)
        if len(last) < len(deliveries):
            raise self.fails_with or ConnectionError(self.fails_on)
        return last

    async def partitions(self, topic: str) -> int:
        return self.counts[topic]


@dataclass
class FakeOffsets:
    of_group: dict[int, int] = field(default_factory=dict)
    noted: dict[int, str] = field(default_factory=dict)

    async def committed(self, topic: str) -> dict[int, int]:
        return dict(self.of_group)

    async def notes(self, topic: str) -> dict[int, str]:
        return dict(self.noted)


@dataclass
class FakeConsumer:
    paused: set[TP] = field(default_factory=set)
    earliest: dict[TP, int] = field(default_factory=dict)
    unread: dict[TP, int] = field(default_factory=dict)

    def backlog(self, tp: TP) -> int:
        return self.unread.get(tp, 0)

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        return {tp: self.earliest.get(tp, 0) for tp in tps}

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        self.paused |= set(tps)

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        self.paused -= set(tps)


@dataclass
class FakeFence:
    is_open: bool = True


@dataclass
class FakeConf:
    broker_session_timeout: float = 10.0


class FakeApp:
    """The application, as far as ingest and propagate use it."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.happened: list[tuple[Any, ...]] = []
        self.outbox = FakeOutbox(self.happened, counts)
        self.offsets = FakeOffsets()
        self.consumer = FakeConsumer()
        self.fence = FakeFence()
        self.conf = FakeConf()
        self.rebalancing = False
        self.should_stop = False
        self.ended: set[TP] = set()
        self.ended_at = time.time()
        self.acknowledged: list[tuple[str, int, int]] = []
        self.heard: dict[TP, int] = {}
        self.read_from: list[TP] = []
        self.commit_notes: dict[str, str] = {}
        self.crashed_with: list[BaseException] = []

    async def crash(self, reason: BaseException) -> None:
        self.crashed_with.append(reason)

    def acknowledge(self, batch: Iterable[Message]) -> None:
        done = [(m.topic, m.partition, m.offset) for m in batch]
        self.acknowledged += done
        if done:
            self.happened.append(("acknowledged",))

    def acknowledge_to(self, tp: TP, offset: int) -> None:
        done = [each for topic, partition, each in self.acknowledged if (topic, partition) == tp]
        new = [(*tp, each) for each in range(max(done, default=-1) + 1, offset + 1)]
        self.acknowledged += new
        if new:
            self.happened.append(("acknowledged",))

    def hear(self, tp: TP, end: int) -> None:
        self.heard[tp] = end

    def progress(self) -> None:
        pass

    def abandon(self, batch: Sequence[Message]) -> None:
        pass

    def end_seen_at(self, tp: TP) -> float | None:
        return self.ended_at if tp in self.ended else None

    async def read_again(self, tp: TP) -> None:
        self.read_from.append(tp)


class FakeTable:
    """A table whose stores are in memory; its changelog has the limit of the real one."""

    def __init__(self, happened: list[tuple[Any, ...]], max_commit_bytes: int) -> None:
        self.max_commit_bytes = max_commit_bytes
        self.happened = happened
        self.stores: dict[int, MemoryStore] = {}
        self.fenced = False
        # What goes wrong with the next commit: before its changelog has it, or only its disk has not.
        self.append_fails: BaseException | None = None
        self.write_fails: BaseException | None = None
        self.changelog: dict[int, MemoryStore] = {}
        self.broken: set[int] = set()
        self.sizes: list[int] = []

    def store(self, partition: int) -> MemoryStore:
        return self.stores.setdefault(partition, MemoryStore())

    def check(self, partition: int) -> None:
        if self.fenced:
            raise FencedError("fenced")

    def tenure(self, partitions: Collection[int]) -> Tenure:
        if self.broken & set(partitions):
            raise StateError("not recovered since a commit failed")
        return Tenure(partitions, self._commit, "table")

    def recover(self) -> None:
        """What recovery does: the disk has what the changelog has."""
        self.broken.clear()
        self.stores = {partition: copy.deepcopy(log) for partition, log in self.changelog.items()}

    async def _commit(self, changes: Mapping[int, Sequence[Change]]) -> None:
        for partition, mine in changes.items():
            self.check(partition)
            self.sizes.append(Changelog.size(mine))
            if self.sizes[-1] > self.max_commit_bytes:
                raise BatchTooLargeError(f"{self.sizes[-1]} bytes")
        self._fail(changes, "append_fails")
        for partition, mine in changes.items():
            self.changelog.setdefault(partition, MemoryStore()).write(mine)
        self._fail(changes, "write_fails")
        for partition, mine in changes.items():
            self.store(partition).write(mine)
            self.happened.append(("committed", partition))

    def _fail(self, partitions: Collection[int], how: str) -> None:
        failure = getattr(self, how)
        setattr(self, how, None)
        if failure is not None:
            self.broken.update(partitions)
            raise failure


class FakeCluster:
    """Topics and their ends; what it is asked fails while `silent` is set."""

    def __init__(self, ends: dict[str, list[int]]) -> None:
        self.topics = ends
        self.ids: dict[str, UUID] = {}
        self.silent: KafkaError | None = None
        self.records: dict[tuple[str, int], list[Message]] = {}
        self.deleted: dict[str, dict[int, int]] = {}
        #: Of the group, by topic; and the topics for which they were asked.
        self.offsets: dict[str, dict[int, int]] = {}
        self.asked: list[str] = []

    async def committed(self, group: str, topic: str) -> dict[int, int]:
        self._answer()
        self.asked.append(topic)
        return self.offsets.get(topic, {})

    async def describe(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        self._answer()
        return {name: TopicDescription(len(self.topics.get(name, [0])), self.ids.get(name)) for name in topics}

    async def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        self._answer()
        return {partition: self.topics[topic][partition] for partition in partitions}

    async def read(self, topic: str, partition: int, first: int, end: int) -> list[Any]:
        self._answer()
        return [each for each in self.records.get((topic, partition), ()) if first <= each.offset < end]

    async def delete_below(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._answer()
        self.deleted.setdefault(topic, {}).update(offsets)

    def _answer(self) -> None:
        if self.silent is not None:
            raise self.silent
