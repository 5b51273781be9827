"""The agent that owns nodes: receives, computes, sends, and commits each partition so that nothing counts twice.

Every cycle takes what has come and computes a bounded number of rows in a thread (so that heartbeats go on). It is made
durable while the next one computes, one at a time and in order. Reading starts where the state says, never at the
group's offset, so a cycle that was cut off anywhere is done again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError
from faust.types import TP

from stream_tgat.agents.committing import Committer
from stream_tgat.agents.engine_thread import EngineThread
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.sources import Sources
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import Engine
from stream_tgat.errors import DamagedStateError, FencedError
from stream_tgat.message_passing.cycle import Cycle
from stream_tgat.message_passing.own_writes import OwnWrite
from stream_tgat.message_passing.owned import OwnedPartitions
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.message_passing.release import Ready
from stream_tgat.topology import Topology
from stream_tgat.transport.application import Application
from stream_tgat.transport.drain import drain
from stream_tgat.transport.table import BulkTable
from stream_tgat.transport.tenure import to_its_end
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.packets import Source

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: How often it is looked whether something is due where nothing comes.
IDLE_S: Final = 0.2
#: Cycles begin at least so far apart while there is no backlog: what a cycle costs hardly depends on what is in it.
#: Short, as ingest has gathered what comes; a second wait of the same length is latency and gathers little more.
PACE_S: Final = 0.005
#: Where rows wait and nothing comes, it may still be that max_wait has passed, or that a source is new.
_WAITING_S: Final = 0.25
#: From so many unread records on, here or with another owner, peer embeddings may simply not have been read yet, and
#: max_wait does not run. Fewer are normal in live traffic and read in no time.
_BACKLOG: Final = 500
_FENCED_IN_A_ROW: Final = 3


class Propagate:
    """Agent on `propagation`, and listener for its partitions."""

    def __init__(
        self,
        app: Application,
        topology: Topology,
        table: BulkTable,
        engine: EngineThread,
        sources: Sources,
        throttle: Throttle,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._topic = topology.topics.propagation
        self._limit = topology.serving.micro_batch
        self._table = table
        self._tenure = table.tenure(())
        self._engine = engine
        metrics.model = engine.version
        # Takes over before the next cycle.
        self._next: Ready | None = None
        self._sources = sources
        self._throttle = throttle
        self._metrics = metrics
        self._committer = Committer(app, self._topic, self._hear, metrics)
        self._owned = OwnedPartitions()
        self._wake: Callable[[], None] = lambda: None
        self.on_newer_event: Callable[[], None] = lambda: None
        # The cycle that is being made durable, and the partitions stored since the engine was told last.
        self._durable: asyncio.Task[None] | None = None
        self._stored: list[int] = []
        self._more = False
        self._cycled_at = 0.0
        self._fenced_in_a_row = 0
        self._cycling = asyncio.Lock()

    # What ingest and the worker ask

    @property
    def pending(self) -> int:
        """Rows of this worker that wait for a watermark or for peer embeddings."""
        return self._metrics.pending

    @property
    def is_computing(self) -> bool:
        """Whether rows are ready and only wait for their turn: progress then needs no input."""
        return self._more

    @property
    def expected(self) -> tuple[Source, ...]:
        """All sources of the deployment, by the partitions that their topics have."""
        return self._sources.expected

    @property
    def newest(self) -> float:
        """The largest time of an event that the partitions of this worker were told of; plus infinity without any."""
        return self._owned.newest

    @property
    def named_model(self) -> int:
        """The newest model that has served a partition of this worker, here or elsewhere; -1 before the first."""
        return self._owned.named_model

    def renew(self, ready: Ready) -> None:
        """Serve this model from the next cycle on; one that is not newer than what serves changes nothing."""
        if ready.version > max(self._engine.version, -1 if self._next is None else self._next.version):
            self._next = ready

    @property
    def committed_offsets(self) -> dict[int, int]:
        """The last record of `propagation` that each partition of this worker has in its committed state."""
        return self._owned.committed_offsets

    def source_watermarks(self) -> Mapping[Source, float]:
        """The watermark of each source as received, the smallest over the partitions of this worker.

        Plus infinity for one that is idle: nobody waits for it.
        """
        return self._owned.source_watermarks(self._sources.expected)

    async def waiting(self) -> int:
        """Rows of this worker whose time no watermark has reached."""
        return await self._engine.waiting(self._owned)

    async def look(self, work: Callable[[Engine, Mapping[int, PartitionProgress]], _T]) -> _T:
        """Short work that changes nothing, in the engine's thread between two cycles.

        It gets the engine, and the progress of each partition that may be asked. Whatever it raises ends the tenure: a
        node may have been read in part.
        """
        return await self._engine.look(partial(self._look, work))

    def _look(self, work: Callable[[Engine, Mapping[int, PartitionProgress]], _T], engine: Engine) -> _T:
        owned = {} if self._tenure.is_over else dict(self._owned)
        received = {number: each.progress for number, each in owned.items() if self._engine.may_serve(each)}
        try:
            return work(engine, received)
        except BaseException as error:
            self._tenure.end(error)
            raise

    def sent(self, partition: int, offset: int, value: bytes, headers: Headers = ()) -> None:
        """Take note of a record of `propagation` that the brokers have acknowledged."""
        self._hear(partition, OwnWrite(offset, value, headers=headers))

    def _hear(self, partition: int, record: OwnWrite) -> None:
        mine = self._owned.get(partition)
        if mine is not None and mine.hear(record):
            self._wake()

    # Partitions come and go

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Open these partitions where their state has stopped."""
        async with self._cycling:
            try:
                await self._open(sorted(tp.partition for tp in tps if tp.topic == self._topic))
            except DamagedStateError as damage:
                # All come back, recovered, with the rebalance that the table has asked for.
                _log.warning("Partitions are not opened yet: %s", damage)
                await self._close()
                return
        try:
            await self.look_at_sources()
        except KafkaError as problem:
            # The worker looks again every few seconds; until it has found out, nothing is computed.
            _log.warning("The sources could not be looked at: %r", problem)

    async def on_revoked(self, tps: frozenset[TP]) -> None:  # noqa: ARG002
        """Wait for the cycle under way, commit what it left unless something has failed, and forget everything."""
        problem = None
        async with self._cycling:
            try:
                await self._settle()
                if not self._tenure.is_over:
                    with self._tenure.at_stake():
                        await self._make_durable(await self._engine.take(self._owned.values()), [])
            except FencedError as error:
                _log.info("What was left is computed again: %s", error)
            except Exception as error:  # noqa: BLE001
                # The partitions must be let go in any case.
                problem = error
            finally:
                await self._close()
        if problem is not None:
            await self._app.crash(problem)

    def start_offset(self, tp: TP) -> int | None:
        """Where reading a partition starts: after the last record in its state."""
        partition = self._owned.get(tp.partition)
        return None if partition is None else partition.progress.offset + 1

    async def look_at_sources(self) -> None:
        """Find out which sources there are; raises LostDataError if one was made anew."""
        await self._sources.look(self._owned.received())

    async def _open(self, partitions: Sequence[int]) -> None:
        """Begin anew from what is stored, with the right to commit to it."""
        self._tenure = self._table.tenure(partitions)
        for number in partitions:
            partition = await self._engine.open(number, self._table.store(number), time.monotonic())
            self._owned[number] = partition
            self._throttle.read(number, partition.progress.offset + 1)
            if not self._engine.may_serve(partition):
                _log.info("%s/%d waits for model %d", self._topic, number, partition.progress.model)
        # What was opened may have rows that are ready, and is told which model serves it.
        self._more = True
        self._metrics.pending = self._engine.pending

    async def _close(self) -> None:
        """Forget what is in memory, when nothing can change what is stored any more."""
        durable, self._durable = self._durable, None
        if durable is not None:
            await asyncio.wait([durable])
            if not durable.cancelled() and durable.exception() is not None:
                _log.warning("Given up with it: %r", durable.exception())
        self._tenure = self._table.tenure(())
        await self._engine.close(self._owned)
        self._stored.clear()
        self._more = False
        self._metrics.pending = 0

    # The agent

    async def run(self, stream: Any) -> None:
        """Receive and compute for ever, with or without input."""
        self._wake = stream.channel.queue.wake
        async for batch in drain(stream, self._limit, idle_s=IDLE_S, busy=lambda: self._more, pace_s=PACE_S):
            await self.cycle(batch)
            # Nothing more is taken from the stream while something waits here, so that its bound holds.
            while self._owned.has_waiting and not self._app.rebalancing and not self._app.should_stop:
                await self.cycle([])
                await asyncio.sleep(0)

    async def cycle(self, batch: Sequence[Any]) -> asyncio.Task[None] | None:
        """Compute while the cycle before is made durable, then begin to make this one durable.

        Returns what makes it durable; None if there was nothing to do, or if what is in memory was given up. When it
        fails, the next cycle deals with that.
        """
        async with self._cycling:
            return await self._cycle(batch)

    async def _cycle(self, batch: Sequence[Any]) -> asyncio.Task[None] | None:
        try:
            # The rows of this cycle leave the engine's account here, and its outputs are not sent before the last
            # cycle is durable: if anything fails between, nothing that is in memory may be committed any more.
            with self._tenure.at_stake():
                self._read(batch)
                if not self._has_work:
                    self._app.abandon(batch)
                    return None
                await self._switch_model()
                stored, self._stored = self._stored, []
                newest = self.newest
                expected, backlog = self._sources.expected, self._has_backlog()
                cycle = await self._engine.work(self._owned, expected, backlog=backlog, stored=stored)
                self._tell_throttle()
                if self.newest > newest:
                    self.on_newer_event()
                await self._settle()
        except FencedError as error:
            # The rebalance that giving up may wait for must not wait for this batch: it is read again.
            self._app.abandon(batch)
            await self._give_up(error)
            return None
        except BaseException:
            self._app.abandon(batch)
            raise
        self._durable = asyncio.create_task(self._make_durable(cycle, batch))
        self._more = self._owned.has_waiting or cycle.is_cut
        self._cycled_at = time.monotonic()
        return self._durable

    def _read(self, batch: Sequence[Any]) -> None:
        """Take records of the stream, and receive at once what holds nothing new: it makes no cycle."""
        if any(message.partition not in self._owned for message in batch):
            # Read just before the partitions were given up, and read again by their next owner.
            return
        for message in batch:
            self._owned[message.partition].read(message)
        for number, partition in self._owned.items():
            partition.pass_over_known()
            self._app.hear(TP(self._topic, number), partition.next_offset)
        self._tell_throttle()

    def _tell_throttle(self) -> None:
        for number, partition in self._owned.items():
            self._throttle.read(number, partition.progress.offset + 1)

    @property
    def _has_work(self) -> bool:
        """Whether there is anything for a cycle to do. Much of what comes is what was sent from here."""
        now = time.monotonic()
        return bool(self._owned) and (
            self._more
            or self._next is not None
            or self._owned.has_waiting
            or self._owned.is_due(now)
            or self._engine.writes_again(now)
            or (self.pending > 0 and now - self._cycled_at > _WAITING_S)
        )

    async def _settle(self) -> None:
        """Wait until the last cycle is durable; raises what went wrong with it."""
        durable, self._durable = self._durable, None
        if durable is not None:
            await to_its_end(durable)
            self._fenced_in_a_row = 0

    async def _switch_model(self) -> None:
        """The serving model is in the state before the first output that names it, and after all that name another."""
        ready, self._next = self._next, None
        if ready is not None:
            await self._engine.swap(ready)
            self._metrics.model, self._metrics.release = ready.version, ready.name
            self._metrics.switches += 1
        version = self._engine.version
        switching = [partition for partition in self._owned.values() if partition.progress.model < version]
        if not switching:
            return
        # Of each partition one commit at a time; and the outputs of the last cycle are acknowledged then.
        await self._settle()
        for partition in switching:
            partition.progress.model = version
        # The reserved key says what has been received, so it never goes without the rows of that.
        await self._make_durable(await self._engine.take(switching, always=True), [])
        if ready is not None:
            partitions = sorted(partition.number for partition in switching)
            _log.info("Model %d (release %s) serves partitions %s", ready.version, ready.name, partitions)

    async def _make_durable(self, cycle: Cycle, batch: Sequence[Any]) -> None:
        try:
            with self._tenure.at_stake():
                stored = await self._committer.commit(self._tenure, cycle)
                self._stored += stored
        finally:
            # A rebalance need not wait for what is left waiting or uncommitted: it can be read again.
            self._app.abandon(batch)

    async def _give_up(self, error: FencedError) -> None:
        """Forget what was not committed; it is read again, by us if the partitions turn out to be ours still."""
        self._metrics.fenced += 1
        self._fenced_in_a_row += 1
        _log.warning("Batch given up: %s", error)
        partitions = list(self._owned)
        await self._close()
        limit = time.monotonic() + 2 * float(self._app.conf.broker_session_timeout)
        while self._app.fence.is_open:
            if self._fenced_in_a_row > _FENCED_IN_A_ROW or time.monotonic() > limit:
                raise error
            try:
                for partition in partitions:
                    self._table.check(partition)
            except FencedError:
                await asyncio.sleep(0.1)
                continue
            await self._open(partitions)
            for partition in partitions:
                await self._app.read_again(TP(self._topic, partition))
            return
        # The partitions are being handed over: on_recovered opens those that come back.

    def _has_backlog(self) -> bool:
        """Whether peer embeddings that rows wait for may simply not have been read yet."""
        unread = [self._app.consumer.backlog(TP(self._topic, partition)) for partition in self._owned]
        waiting = (len(partition.waiting) for partition in self._owned.values())
        return self._throttle.window_is_full or max(*unread, *waiting, 0) > _BACKLOG
