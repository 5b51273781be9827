"""The application: Faust's App with everything in this package wired into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import Message
from mode import get_logger

from stream_tgat.errors import FencedError
from stream_tgat.transport.buffer import BulkQueue
from stream_tgat.transport.client import HeldBack, Lag
from stream_tgat.transport.consumer import BulkConsumer
from stream_tgat.transport.fence import Fence
from stream_tgat.transport.membership import Assignor
from stream_tgat.transport.offsets import Offsets
from stream_tgat.transport.options import TransportOptions, faust_settings
from stream_tgat.transport.outbox import Outbox
from stream_tgat.transport.process import begin_anew
from stream_tgat.transport.producer import BulkProducer
from stream_tgat.transport.recovery import BulkTableManager
from stream_tgat.transport.table import BulkTable
from stream_tgat.transport.watchdog import Watchdog
from stream_tgat.transport.web import Web

logger = get_logger(__name__)


class PartitionListener(Protocol):
    """Learns which partitions this worker works on.

    Every rebalance takes all partitions away and gives some back, so `on_recovered` is preceded by `on_revoked` unless
    it is the first.
    """

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """These active partitions, sources and changelogs, are ours; tables are readable, nothing was read yet."""

    async def on_revoked(self, tps: frozenset[TP]) -> None:
        """These go to someone else, unless they come back: the last moment to commit.

        Afterwards commits raise FencedError, as they do here already if the worker was too slow to be still the owner.
        """


class Transport(driver.Transport):
    """Faust's transport with our consumer and producer."""

    Consumer = BulkConsumer
    Producer = BulkProducer


class Application(faust.App):
    """A Faust application that loses nothing on rebalances and moves records in bulk.

    fence     whether commits may begin                      outbox   sends to chosen partitions
    offsets   ends, commits and deletions of any topic       options  see TransportOptions
    """

    def __init__(self, id: str, *, options: TransportOptions | None = None, **settings: Any) -> None:  # noqa: A002
        self.options = options or TransportOptions()
        self.outbox = Outbox(self)
        self.offsets = Offsets(self)
        self._listeners: list[PartitionListener] = []
        self._start_offsets: dict[str, Callable[[TP], int | None]] = {}
        self.commit_notes: dict[str, str] = {}
        self._expendable: set[str] = set()
        self._recovered: frozenset[TP] = frozenset()
        self._handover = asyncio.Lock()
        # Told to the group by this member when it joins: a URL, where others reach it.
        self.advertised: str | None = None
        settings = faust_settings(settings)
        settings.setdefault("TableManager", BulkTableManager)
        settings.setdefault("PartitionAssignor", Assignor)
        session_s = float(settings["broker_session_timeout"])
        self.fence = Fence(
            self._group_generation,
            session_s=session_s,
            heartbeat_limit=self.options.heartbeat_limit,
            exit_process=self.begin_anew,
        )
        self.watchdog: Watchdog | None = None
        super().__init__(id, **settings)

    # What agents use

    def bulk_table(self, name: str, *, partitions: int, **options: Any) -> BulkTable:
        """A table whose state is read and written by partition; as many partitions as the topic it belongs to."""
        table = BulkTable(self, name=name, partitions=partitions, rocks_options=self.options.rocks, **options)
        return self.tables.add(table)

    def raw_topic(self, *names: str, **options: Any) -> Any:
        """Topics whose keys and values stay bytes, so that decoding, and its errors, are ours."""
        return self.topic(
            *names, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", **options
        )

    def add_listener(self, listener: PartitionListener) -> None:
        """Call a listener whenever partitions are recovered or revoked."""
        self._listeners.append(listener)

    def read_from(self, topic: str, start_offset: Callable[[TP], int | None]) -> None:
        """Read a topic from where `start_offset(tp)` says, not from the group's offset.

        It is called when the tables are recovered; None means the group's offset, and without one the beginning. An
        offset that the log does not hold, or not any more, stops the worker.
        """
        self._start_offsets[topic] = start_offset

    def note_commits(self, topic: str, note: str) -> None:
        """Store a note beside each offset of this topic that is committed from now on; `offsets.notes` tells it."""
        self.commit_notes[topic] = note

    def pass_over_lost(self, topic: str) -> None:
        """Go on where records of this topic were deleted unread, with a warning, instead of stopping the worker."""
        self._expendable.add(topic)

    def acknowledge(self, batch: Iterable[Message]) -> None:
        """Mark a batch as done: its offsets may be committed for the group."""
        for message in batch:
            message.ack(self.consumer)
        self.progress()

    def acknowledge_to(self, tp: TP, offset: int) -> None:
        """Mark all records of a partition up to and with an offset as done, those included that were only heard."""
        self.consumer.acknowledge_to(tp, offset)
        self.progress()

    def hear(self, tp: TP, end: int) -> None:
        """Read no record of an owned partition before offset `end` any more: the agent has them by other means."""
        self.consumer.positions.hear(tp, end)

    def abandon(self, batch: Sequence[Message]) -> None:
        """Give a batch up, after its partitions were revoked: its new owner reads it again."""
        self.consumer.abandon(batch)

    async def read_again(self, tp: TP) -> None:
        """Read an owned partition again from its start offset, after a commit failed and memory was dropped."""
        offset = self.start_offset(tp)
        if offset is None:
            offset = (await self.offsets.committed(tp.topic))[tp.partition]
        await self.consumer.rewind(tp, offset)

    def rejoin(self) -> None:
        """Ask the group to assign partitions anew, as if this worker had just come; from any thread."""
        self.consumer._thread.rejoin()  # noqa: SLF001

    def end_seen_at(self, tp: TP) -> float | None:
        """When the broker of an assigned partition last had no more than the agent has taken (synchronous).

        Unix seconds; None while there is more, or as long as that is not known.
        """
        seen_at: float | None = self.consumer.end_seen_at(tp)
        return seen_at

    def held_back(self, tp: TP) -> HeldBack | None:
        """What an open transaction keeps from being read of an assigned partition; None if nothing (synchronous)."""
        found: HeldBack | None = self.consumer.held_back(tp)
        return found

    def lag(self, tp: TP, place: tuple[int, float | None] | None = None) -> Lag | None:
        """How far an assigned partition is behind; None while that is not known (synchronous). place: see `Ingest`"""
        found: Lag | None = self.consumer.lag(tp, place)
        return found

    @property
    def recovered(self) -> frozenset[TP]:
        """The active partitions that this worker works on now."""
        return self._recovered

    def why_not_ready(self) -> str | None:
        """Why this worker does not work on its partitions now; None if it does."""
        if not self.fence.is_open:
            recovered = self.tables.recovery.done_percent
            return f"recovering {recovered} %" if recovered is not None else "the partitions are being assigned"
        try:
            self.fence.check()
        except FencedError as problem:
            return str(problem)
        return None

    def progress(self) -> None:
        """Tell the watchdog that something was done that offsets do not show."""
        if self.watchdog is not None:
            self.watchdog.progress()

    # What the transport's own parts use

    def begin_anew(self, reason: str) -> None:
        """Replace the process by a new one, since what this one has under way must not reach the log."""
        begin_anew(reason)

    def start_offset(self, tp: TP) -> int | None:
        """Where reading a partition starts, if its topic has a say in it."""
        hook = self._start_offsets.get(tp.topic)
        return None if hook is None else hook(tp)

    def is_expendable(self, topic: str) -> bool:
        """Whether records of a topic that were deleted unread are passed over."""
        return topic in self._expendable

    async def partitions_recovered(self, generation: int) -> None:
        """Called by recovery when the tables are complete and nothing was read yet."""
        async with self._handover:
            self.fence.open(generation)
            standbys = self.assignor.assigned_standbys()
            self._recovered = frozenset(tp for tp in self.consumer.assignment() if tp not in standbys)
            logger.info(
                "Works on %s", _named(tp for tp in self._recovered if tp.topic not in self.tables.changelog_topics)
            )
            for listener in self._listeners:
                await listener.on_recovered(self._recovered)

    def backlog(self) -> int:
        """Offsets of our source partitions that no stream has processed yet."""
        if self._consumer is None:
            return 0
        sources = (tp for tp in self._recovered if tp.topic not in self.tables.changelog_topics)
        return sum(self.consumer.backlog(tp) for tp in sources) + len(self.consumer.unacked)

    def processing_state(self) -> object:
        """Something that changes whenever a record is processed."""
        if self._consumer is None:
            return None
        return self.consumer.positions.all(), sorted(map(id, self.consumer.unacked))

    async def _revoke(self) -> None:
        async with self._handover:
            revoked, self._recovered = self._recovered, frozenset()
            self.fence.last_call()
            try:
                if revoked:
                    await self._tell_revoked(revoked)
            finally:
                await self.fence.close()
                for table in self.tables.values():
                    if isinstance(table, BulkTable):
                        table.close_partitions()

    async def _tell_revoked(self, revoked: frozenset[TP]) -> None:
        """Tell every listener, also after one has failed; the first error is raised then."""
        failed: Exception | None = None
        for listener in self._listeners:
            try:
                await listener.on_revoked(revoked)
            except Exception as error:  # noqa: BLE001
                failed = failed or error
        if failed is not None:
            raise failed

    def _group_generation(self) -> int:
        return -1 if self._consumer is None else self.consumer._thread.generation()  # noqa: SLF001

    # Faust's hooks

    async def _consumer_wait_empty(self, consumer: Any, logger: Any) -> None:
        # Called on revocation and on shutdown, when the streams are stopped and before stores and producer are closed.
        # Batches under way may still commit, and listeners what they have left; the rest is cut off by the fence.
        await super()._consumer_wait_empty(consumer, logger)
        await self._revoke()

    async def _on_agent_error(self, agent: Any, exc: BaseException) -> None:
        # Faust would restart the agent and drop its batch. Here the batch must be read again.
        await super()._on_agent_error(agent, exc)
        await self.crash(exc)

    def on_init_dependencies(self) -> Iterable[Any]:
        """Faust's services and the watchdog."""
        self.watchdog = Watchdog(self, self.options.stall_s, loop=self.loop, beacon=self.beacon)
        return [*super().on_init_dependencies(), self.watchdog]

    def FlowControlQueue(self, maxsize: int | None = None, *, clear_on_resume: bool = False) -> BulkQueue:  # noqa: N802
        """The queue of a stream."""
        return BulkQueue(
            maxsize or 0,
            max_bytes=self.options.buffer_bytes,
            flow_control=self.flow_control,
            clear_on_resume=clear_on_resume,
        )

    def _new_web(self) -> Web:
        return Web(self)

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> Transport:
        return Transport(self.conf.broker_producer, self)


def _named(tps: Iterable[TP]) -> str:
    """Partitions in words, as in "interactions 0, 2; labels 1"; "no partition"."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(tps):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    parts = (f"{topic} {', '.join(map(str, numbers))}" for topic, numbers in by_topic.items())
    return "; ".join(parts) or "no partition"
