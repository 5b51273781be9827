"""The engine in the thread that it belongs to: the event loop stays free for heartbeats and for ingest."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from stream_tgat.engine import Engine
from stream_tgat.message_passing.cycle import Computing, Cycle
from stream_tgat.message_passing.latest import LatestWriter
from stream_tgat.message_passing.outputs import OutputEncoder
from stream_tgat.message_passing.owned import OwnedPartitions
from stream_tgat.message_passing.partition import Partition
from stream_tgat.message_passing.receiving import Receiver
from stream_tgat.message_passing.release import Ready, ServingEngine
from stream_tgat.message_passing.state_identity import Identity, TopicIds
from stream_tgat.message_passing.traces import Traces
from stream_tgat.storage.stores import Store
from stream_tgat.topology import Topology
from stream_tgat.transport.tenure import to_its_end
from stream_tgat.wire import OutputSchemas
from stream_tgat.wire.packets import Source

_T = TypeVar("_T")


class EngineThread:
    """Does what is asked of the engine, one after the other, with the model that serves.

    version: of that model
    """

    def __init__(
        self,
        topology: Topology,
        serving: ServingEngine,
        partitions: Mapping[str, int],
        ids: TopicIds,
        schemas: OutputSchemas | None,
        max_commit_bytes: int,
    ) -> None:
        """partitions: of the topics that are written, by full name   ids: of all topics

        schemas: of what is written, where that is Avro   max_commit_bytes: of one partition, see `BulkTable`
        """
        self.version = serving.version
        self._engine, topics = serving.engine, topology.topics
        self._receiver = partial(
            Receiver, serving.engine, serving.layout, topics.propagation, identity=Identity.of(topology, ids)
        )
        traces = Traces()
        encoder = OutputEncoder(topology, serving.layout, partitions, schemas, traces)
        latest = LatestWriter(serving.engine, encoder, ids.get(topics.latest), is_on=topology.serving.latest)
        self._computing = Computing(topology, serving.engine, encoder, latest, max_commit_bytes, traces)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")

    # What is known without it

    @property
    def pending(self) -> int:
        """Rows that wait for a watermark or for peer embeddings."""
        return self._engine.pending()

    @property
    def lookups(self) -> tuple[int, int]:
        """Nodes that were looked up in memory, and those of them that were not there."""
        return self._engine.lookups

    @property
    def cache_bytes(self) -> int:
        """Memory of nodes and rows, as `serving.cache_bytes` counts it."""
        return self._engine.used_bytes()

    def may_serve(self, partition: Partition) -> bool:
        """A partition that a newer model has served elsewhere computes nothing until that model is here too."""
        return partition.progress.model <= self.version

    def writes_again(self, now: float) -> bool:
        """Whether nodes are to be written to topic `latest` again at `now` (monotonic seconds)."""
        return self._computing.latest.is_due(now)

    # What it does

    async def open(self, number: int, store: Store, now: float) -> Partition:
        """Begin with a partition where its state has stopped. now: monotonic seconds"""
        receiver = await self._run(partial(self._receiver, number, store))
        await self._run(partial(self._computing.latest.open, number, store))
        return Partition(receiver, now)

    async def close(self, owned: OwnedPartitions) -> None:
        """Forget these partitions, and all that was not sent."""
        for number in tuple(owned):
            await self._run(owned.pop(number).receiver.close)
        self._computing.forget()

    async def swap(self, ready: Ready) -> None:
        """Serve another model from now on."""
        await self._run(partial(self._swap, ready))

    async def work(
        self, owned: OwnedPartitions, expected: Collection[Source], *, backlog: bool, stored: Sequence[int]
    ) -> Cycle:
        """One cycle, see `Computing`. stored: partitions whose changes were stored since the last one"""
        return await self._run(partial(self._work, owned, expected, backlog, stored))

    async def take(self, partitions: Iterable[Partition], *, always: bool = False) -> Cycle:
        """A cycle of what these partitions have to commit; always: how far they are, in any case."""
        return await self._run(partial(self._computing.take, Cycle(), partitions, always=always))

    async def waiting(self, owned: OwnedPartitions) -> int:
        """Rows whose time no watermark has reached."""
        return await self._run(
            lambda: sum(self._engine.waiting(each.number, each.progress.passed) for each in tuple(owned.values()))
        )

    async def look(self, work: Callable[[Engine], _T]) -> _T:
        """Short work that changes nothing, between two cycles."""
        return await self._run(partial(work, self._engine))

    def _work(
        self, owned: OwnedPartitions, expected: Collection[Source], backlog: bool, stored: Sequence[int]
    ) -> Cycle:
        for number in stored:
            self._engine.committed(number)
        may_serve = [number for number, partition in owned.items() if self.may_serve(partition)]
        return self._computing.work(owned, may_serve, expected, backlog=backlog)

    def _swap(self, ready: Ready) -> None:
        self._engine.swap(ready.model, ready.version, ready.alerts)
        self._computing.latest.renew()
        self.version = ready.version

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self._thread, work))
