"""The agent that owns nodes: receives, computes, sends, and commits each partition so that nothing counts twice.

Every cycle takes what has come and computes a bounded number of rows in a thread (so that heartbeats go on). It is made
durable while the next one computes, one at a time and in order. Reading starts where the state says, never at the
group's offset, so a cycle that was cut off anywhere is done again.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from aiokafka.errors import KafkaError
from faust.types import TP
from numpy.typing import NDArray

from stream_tgat.agents.cluster import Cluster
from stream_tgat.agents.commits import RECEIVED_SHARE
from stream_tgat.agents.echo import Echo, Echoed
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.outputs import Delivery, OutputEncoder
from stream_tgat.agents.progress import EVERYTHING, Progress
from stream_tgat.agents.receiving import Received, Receiver, receive
from stream_tgat.agents.releases import Ready
from stream_tgat.agents.sources import Sources
from stream_tgat.agents.state_identity import Identity, TopicIds
from stream_tgat.agents.throttle import Throttle
from stream_tgat.agents.written import Written
from stream_tgat.engine import Computed, Engine, Memos
from stream_tgat.errors import DamagedStateError, FencedError
from stream_tgat.topology import Topology
from stream_tgat.transport.application import Application
from stream_tgat.transport.changelog import Change
from stream_tgat.transport.drain import drain
from stream_tgat.transport.outbox import gather_deliveries
from stream_tgat.transport.table import BulkTable
from stream_tgat.transport.tenure import to_its_end
from stream_tgat.wire.packets import PacketLayout, Source, partitions_of

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

IDLE_S: Final = 0.05
#: Cycles begin at least so far apart while there is no backlog: what a cycle costs hardly depends on what is in it.
#: Short, as ingest has gathered what comes; a second wait of the same length is latency and gathers little more.
PACE_S: Final = 0.005
#: A cycle computes until it has so many micro-batches of rows, a row counting once for each layer that it goes up.
_CYCLE_MICRO_BATCHES: Final = 4
#: A partition commits in one cycle of so many, in turn: what a commit costs hardly depends on what is in it, and what a
#: crash undoes is computed again.
_TURNS: Final = 4
#: Progress without rows (watermarks at rest) is committed this often only: it can be read again.
_LAZY_COMMIT_S: Final = 1.0
#: From so many unread records on, here or with another owner, memos may simply not have been read yet, and max_wait
#: does not run. Fewer are normal in live traffic and read in no time.
_BACKLOG: Final = 500
_FENCED_IN_A_ROW: Final = 3


@dataclass
class _Cycle:
    """What one cycle has done in memory and must now make durable.

    changes, done, offsets: for each partition that commits, what goes into its state, the records that are then done
    with, and the last of them.   stored: the partitions whose engine's state is among it.
    has_filled: the memos in `deliveries` that are for this worker are in their rows.   seconds: that it took
    """

    deliveries: list[Delivery] = field(default_factory=list)
    has_filled: bool = False
    changes: dict[int, list[Change]] = field(default_factory=dict)
    done: dict[int, list[Any]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    stored: list[int] = field(default_factory=list)
    received: dict[int, Received] = field(default_factory=dict)
    # When the records behind the embeddings were written, f8[B]; not a number where that is not known
    written: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    embeddings: int = 0
    alerts: int = 0
    forced: int = 0
    stale: int = 0
    is_cut: bool = False
    pending: int = 0
    seconds: float = 0.0


class Propagate:
    """Agent on `propagation`, and listener for its partitions."""

    def __init__(
        self,
        app: Application,
        topology: Topology,
        engine: Engine,
        version: int,
        layout: PacketLayout,
        table: BulkTable,
        cluster: Cluster,
        throttle: Throttle,
        metrics: Metrics,
        ids: TopicIds,
    ) -> None:
        self._app = app
        self._topology = topology
        self._topic = topology.topics.propagation
        self._engine = engine
        self._version = metrics.model = version
        # Takes over before the next cycle.
        self._next: Ready | None = None
        self._layout = layout
        self._table = table
        self._tenure = table.tenure(())
        self._identity = Identity.of(topology, ids)
        self._sources = Sources(topology, cluster, ids)
        self._throttle = throttle
        self._metrics = metrics
        self._encoder: OutputEncoder
        self._receivers: dict[int, Receiver] = {}
        # Taken from the stream and not acknowledged yet: to be received, and received but not committed.
        self._waiting: dict[int, deque[Any]] = {}
        self._uncommitted: dict[int, list[Any]] = {}
        self._echo = Echo()
        self._written = Written()
        self._wake: Callable[[], None] = lambda: None
        # The cycle that is being made durable, and the partitions stored since the engine was told last.
        self._durable: asyncio.Task[None] | None = None
        self._stored: list[int] = []
        self._turn = 0
        self._committed_at: dict[int, float] = {}
        self._committed_offset: dict[int, int] = {}
        self._more = False
        self._fenced_in_a_row = 0
        self._cycling = asyncio.Lock()
        # One thread: the engine belongs to it. The event loop stays free for heartbeats and for ingest.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")

    # What ingest and the worker ask

    @property
    def pending(self) -> int:
        """Rows of this worker that wait for a watermark or for memos."""
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
        receivers = tuple(self._receivers.values())
        return max(receiver.progress.newest for receiver in receivers) if receivers else EVERYTHING

    @property
    def named_model(self) -> int:
        """The newest model that has served a partition of this worker, here or elsewhere; -1 before the first."""
        return max((receiver.progress.model for receiver in tuple(self._receivers.values())), default=-1)

    def renew(self, ready: Ready) -> None:
        """Serve this model from the next cycle on; one that is not newer than what serves changes nothing."""
        if ready.version > max(self._version, -1 if self._next is None else self._next.version):
            self._next = ready

    @property
    def committed_offsets(self) -> dict[int, int]:
        """The last record of `propagation` that each partition of this worker has in its committed state."""
        return dict(self._committed_offset)

    def source_watermarks(self) -> Mapping[Source, float]:
        """The watermark of each source as received, the smallest over the partitions of this worker.

        Plus infinity for one that is idle: nobody waits for it.
        """
        tables = {receiver.progress.sources for receiver in tuple(self._receivers.values())}
        if not tables:
            return {}
        return {source: min(table.watermark_of(source) for table in tables) for source in self._sources.expected}

    async def waiting(self) -> int:
        """Rows of this worker whose time no watermark has reached."""
        return await self._in_thread(
            lambda: sum(
                self._engine.waiting(partition, receiver.progress.passed)
                for partition, receiver in tuple(self._receivers.items())
            )
        )

    @property
    def lookups(self) -> tuple[int, int]:
        """Nodes that were looked up in memory, and those of them that were not there."""
        return self._engine.lookups

    @property
    def cache_bytes(self) -> int:
        """Memory of nodes and rows, as `serving.cache_bytes` counts it."""
        return self._engine.used_bytes()

    def sent(self, partition: int, offset: int, value: bytes) -> None:
        """Take note of a record of `propagation` that the brokers have acknowledged."""
        self._hear(partition, Echoed(offset, value))

    def _hear(self, partition: int, record: Echoed) -> None:
        if self._echo.hear(partition, record):
            self._wake()

    # Partitions come and go

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Open these partitions where their state has stopped."""
        async with self._cycling:
            await self._make_encoder()
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
                        left = await self._in_thread(partial(self._take, _Cycle(), self._receivers))
                        await self._make_durable(left, [])
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
        receiver = self._receivers.get(tp.partition)
        return None if receiver is None else receiver.progress.offset + 1

    async def look_at_sources(self) -> None:
        """Find out which sources there are; raises LostDataError if one was made anew."""
        await self._sources.look(
            (source, known.end)
            for receiver in tuple(self._receivers.values())
            for source, known in receiver.progress.sources.of.items()
        )

    async def _make_encoder(self) -> None:
        if not hasattr(self, "_encoder"):
            topics = self._topology.topics
            names = (topics.propagation, topics.embeddings, topics.alerts)
            partitions = {name: await self._app.outbox.partitions(name) for name in names}
            self._encoder = OutputEncoder(self._topology, self._layout, partitions)

    async def _open(self, partitions: Sequence[int]) -> None:
        """Begin anew from what is stored, with the right to commit to it."""
        self._tenure = self._table.tenure(partitions)
        for partition in partitions:
            store = self._table.store(partition)
            arguments = (self._engine, self._layout, self._topic, partition, store, self._identity)
            receiver = await self._in_thread(partial(Receiver, *arguments))
            self._receivers[partition] = receiver
            self._waiting[partition] = deque()
            self._echo.open(partition, receiver.progress.offset + 1)
            self._uncommitted[partition] = []
            self._committed_at[partition] = time.monotonic()
            self._committed_offset[partition] = receiver.progress.offset
            self._throttle.read(partition, receiver.progress.offset + 1)
            if not self._may_serve(receiver.progress):
                _log.info("%s/%d waits for model %d", self._topic, partition, receiver.progress.model)
        self._metrics.pending = self._engine.pending()

    async def _close(self) -> None:
        """Forget what is in memory, when nothing can change what is stored any more."""
        durable, self._durable = self._durable, None
        if durable is not None:
            await asyncio.wait([durable])
            if not durable.cancelled() and durable.exception() is not None:
                _log.warning("Given up with it: %r", durable.exception())
        self._tenure = self._table.tenure(())
        for partition in tuple(self._receivers):
            self._echo.close(partition)
            await self._in_thread(self._receivers.pop(partition).close)
        for known in (self._waiting, self._uncommitted, self._committed_at, self._committed_offset, self._stored):
            known.clear()
        self._more = False
        self._metrics.pending = 0

    # The agent

    async def run(self, stream: Any) -> None:
        """Receive and compute for ever, with or without input."""
        limit = self._topology.serving.micro_batch
        self._wake = stream.channel.queue.wake
        async for batch in drain(stream, limit, idle_s=IDLE_S, busy=lambda: self._more, pace_s=PACE_S):
            async with self._cycling:
                if any(message.partition not in self._receivers for message in batch):
                    # Read just before the partitions were given up, and read again by their next owner.
                    self._app.abandon(batch)
                    continue
                for message in batch:
                    self._waiting[message.partition].append(message)
                    self._echo.read(message.partition, message.offset)
                await self._cycle(batch)
            # Nothing more is taken from the stream while something waits here, so that its bound holds.
            while any(self._waiting.values()) and not self._app.rebalancing and not self._app.should_stop:
                async with self._cycling:
                    await self._cycle([])
                await asyncio.sleep(0)

    async def _cycle(self, batch: Sequence[Any]) -> None:
        """Compute while the cycle before is made durable, then begin to make this one durable."""
        try:
            # The rows of this cycle leave the engine's account here, and its outputs are not sent before the last
            # cycle is durable: if anything fails between, nothing that is in memory may be committed any more.
            with self._tenure.at_stake():
                await self._switch_model()
                stored, self._stored = self._stored, []
                cycle = await self._in_thread(partial(self._work, self._encoder, self._has_backlog(), stored))
                for partition, receiver in self._receivers.items():
                    self._throttle.read(partition, receiver.progress.offset + 1)
                await self._settle()
        except FencedError as error:
            # The rebalance that giving up may wait for must not wait for this batch: it is read again.
            self._app.abandon(batch)
            await self._give_up(error)
            return
        except BaseException:
            self._app.abandon(batch)
            raise
        self._durable = asyncio.create_task(self._make_durable(cycle, batch))
        self._more = any(self._waiting.values()) or cycle.is_cut

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
            await self._in_thread(partial(self._swap, ready))
        switching = [r for r in self._receivers.values() if r.progress.model < self._version]
        if not switching:
            return
        # Of each partition one commit at a time; and the outputs of the last cycle are acknowledged then.
        await self._settle()
        for receiver in switching:
            receiver.progress.model = self._version
        partitions = [receiver.partition for receiver in switching]
        # The reserved key says what has been received, so it never goes without the rows of that.
        await self._make_durable(await self._in_thread(partial(self._take, _Cycle(), partitions, always=True)), [])
        if ready is not None:
            _log.info("Model %d (release %s) serves partitions %s", ready.version, ready.name, sorted(partitions))

    def _swap(self, ready: Ready) -> None:
        self._engine.swap(ready.model, ready.version, ready.alerts)
        self._version = self._metrics.model = ready.version
        self._metrics.release = ready.name
        self._metrics.switches += 1

    def _work(self, encoder: OutputEncoder, backlog: bool, stored: Sequence[int]) -> _Cycle:
        """In the engine's thread: take in, compute, encode, and take what must be stored."""
        begun = time.perf_counter()
        for partition in stored:
            self._engine.committed(partition)
        cycle = _Cycle()
        for partition in self._receivers:
            self._waiting[partition] += self._echo.take(partition)
        waiting = [(self._receivers[partition], tuple(records)) for partition, records in self._waiting.items()]
        cycle.received = receive(self._engine, waiting, self._room, self._sources.expected, self._written)
        for partition, received in cycle.received.items():
            taken = self._waiting[partition]
            self._uncommitted[partition] += [taken.popleft() for _ in range(received.records)]
        expected = self._sources.expected
        watermarks = {
            partition: receiver.watermark(expected)
            for partition, receiver in self._receivers.items()
            if self._may_serve(receiver.progress)
        }
        computed, cycle.has_filled = self._compute(watermarks, backlog)
        cycle.deliveries = encoder.encode(computed)
        cycle.embeddings, cycle.alerts = len(computed.embeddings), len(computed.alerts)
        cycle.written = self._written.times(computed.embeddings.origin)
        cycle.forced, cycle.stale, cycle.is_cut = computed.forced, computed.stale, computed.is_cut
        self._turn = (self._turn + 1) % _TURNS
        self._take(
            cycle,
            [
                partition
                for at, partition in enumerate(self._receivers)
                if at % _TURNS == self._turn or self._waiting[partition] or self._is_full(partition)
            ],
        )
        cycle.seconds = time.perf_counter() - begun
        return cycle

    def _may_serve(self, progress: Progress) -> bool:
        """A partition that a newer model has served elsewhere computes nothing until that model is here too."""
        return progress.model <= self._version

    def _take(self, cycle: _Cycle, partitions: Iterable[int], *, always: bool = False) -> _Cycle:
        """Add to a cycle what these partitions have to commit; always: their reserved key in any case."""
        now = time.monotonic()
        cycle.pending = self._engine.pending()
        for partition in partitions:
            changes = self._engine.take_changes(partition)
            if changes:
                cycle.stored.append(partition)
            elif not always and (
                not self._uncommitted[partition] or now - self._committed_at[partition] <= _LAZY_COMMIT_S
            ):
                continue
            receiver = self._receivers[partition]
            receiver.progress.waiting = self._engine.waiting(partition, receiver.progress.passed)
            cycle.changes[partition] = [*changes, *receiver.account()]
            cycle.offsets[partition] = receiver.progress.offset
            cycle.done[partition], self._uncommitted[partition] = self._uncommitted[partition], []
            self._committed_at[partition] = now
        return cycle

    def _compute(self, watermarks: Mapping[int, float], backlog: bool) -> tuple[Computed, bool]:
        """What is ready now, pass after pass up to some micro-batches of rows.

        A memo for a node of this worker enters its row at once, so that the next layer need not wait until it comes
        back through Kafka. It is sent all the same: a crash may come between the commits of the two partitions.
        Returns with it whether all memos for this worker are in their rows.
        """
        limit = self._topology.serving.micro_batch
        passes = [self._engine.compute(watermarks, limit, backlog=backlog)]
        rows, most = passes[0].rows, _CYCLE_MICRO_BATCHES * limit
        while (passes[-1].memos or passes[-1].is_cut) and rows < most:
            if any(map(self._is_full, self._receivers)):
                break
            for memos in passes[-1].memos:
                self._fill_own(memos)
            passes.append(self._engine.compute(watermarks, limit, backlog=backlog))
            rows += passes[-1].rows
        return Computed.concatenate(passes), not passes[-1].memos

    @property
    def _room(self) -> int:
        """Bytes of a commit that may be there before one more pass is computed."""
        return int(RECEIVED_SHARE * self._table.max_commit_bytes)

    def _is_full(self, partition: int) -> bool:
        return self._engine.changes_bytes(partition) > self._room

    def _fill_own(self, memos: Memos) -> None:
        owners = partitions_of(memos.node.tolist(), self._topology.kafka.partitions).astype(np.int32)
        mine = np.flatnonzero(np.isin(owners, list(self._receivers)))
        if len(mine):
            self._engine.fill(owners[mine], memos.take(mine))

    async def _make_durable(self, cycle: _Cycle, batch: Sequence[Any]) -> None:
        try:
            with self._tenure.at_stake():
                await self._commit(cycle)
        finally:
            # A rebalance need not wait for what is left waiting or uncommitted: it can be read again.
            self._app.abandon(batch)

    async def _commit(self, cycle: _Cycle) -> None:
        # 1. Outputs and messages are acknowledged first. Once the state says that they were computed, nobody computes
        #    them again, so a crash after step 2 would lose those still under way.
        begun = time.perf_counter()
        await self._deliver(cycle.deliveries, cycle.has_filled)
        self._metrics.embedded(time.time() - cycle.written)
        # 2. and 3. Still the owner and the heartbeat fresh, then the changelog as one record batch, which the log has
        #    completely or not at all: rows ahead of their head would overwrite live ones. Then one RocksDB batch with
        #    the changelog's offset, so that the disk is never between two commits either. See BulkTable.
        await gather_deliveries(
            *(self._tenure.commit(partition, changes) for partition, changes in cycle.changes.items())
        )
        # 4. Only what is in the state is acknowledged: the group's offset never claims more than the reserved key.
        for partition, offset in cycle.offsets.items():
            self._app.acknowledge(message for message in cycle.done[partition] if not isinstance(message, Echoed))
            self._committed_offset[partition] = offset
        self._stored += cycle.stored
        self._metrics.commit_s.observe(time.perf_counter() - begun)
        self._count(cycle)

    async def _deliver(self, deliveries: Sequence[Delivery], is_known: bool) -> None:
        deliver = self._app.outbox.deliver
        offsets = await gather_deliveries(*(deliver(*delivery) for delivery in deliveries))
        for delivery, offset in zip(deliveries, offsets, strict=True):
            value = delivery.records[0].value
            # Of several records only the last one's offset is known.
            if delivery.topic == self._topic and len(delivery.records) == 1 and value is not None:
                self._hear(delivery.partition, Echoed(offset, value, is_known))

    async def _give_up(self, error: FencedError) -> None:
        """Forget what was not committed; it is read again, by us if the partitions turn out to be ours still."""
        self._metrics.fenced += 1
        self._fenced_in_a_row += 1
        _log.warning("Batch given up: %s", error)
        partitions = list(self._receivers)
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
        """Whether memos that rows wait for may simply not have been read yet."""
        unread = [self._app.consumer.backlog(TP(self._topic, partition)) for partition in self._receivers]
        waiting = map(len, self._waiting.values())
        return self._throttle.window_is_full or max(*unread, *waiting, 0) > _BACKLOG

    def _count(self, cycle: _Cycle) -> None:
        metrics = self._metrics
        for received in cycle.received.values():
            metrics.half_edges += received.half_edges
            metrics.messages += received.messages
            metrics.duplicates += received.duplicates
            metrics.repeats += received.repeats
            metrics.differing_repeats += received.differing
            metrics.behind_by_source.update(received.behind)
        metrics.cycle_s.observe(cycle.seconds)
        if cycle.embeddings:
            metrics.cycle_embeddings.observe(cycle.embeddings)
        metrics.embeddings += cycle.embeddings
        metrics.alerts += cycle.alerts
        metrics.forced += cycle.forced
        metrics.stale_rows += cycle.stale
        metrics.commits += len(cycle.changes)
        metrics.pending = cycle.pending

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self._thread, work))
