"""One worker after the other on brokers and a disk in memory: real agents, engine, table, changelog and outbox.

A `World` is what outlives a worker; a `Life` is one worker, from the opening of its partitions to their handover. When
anything that a worker does fails, it ends as the application lets it end, and the next life begins with what is stored.
"""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import torch
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from faust.types import TP

from stream_tgat.agents.engine_thread import EngineThread
from stream_tgat.agents.ingest import Ingest
from stream_tgat.agents.metrics import Metrics
from stream_tgat.agents.propagate import Propagate
from stream_tgat.agents.sources import Sources
from stream_tgat.agents.throttle import Throttle
from stream_tgat.engine import AlertPolicy, Engine
from stream_tgat.message_passing.packing import Packer
from stream_tgat.message_passing.release import Ready, ServingEngine, packet_layout
from stream_tgat.nn.model import Model
from stream_tgat.rocks import Change
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology
from stream_tgat.training.shape import model_config
from stream_tgat.transport.changelog import Changelog
from stream_tgat.transport.fence import Fence
from stream_tgat.transport.outbox import Outbox, OutgoingRecord
from stream_tgat.transport.store import PartitionStore
from stream_tgat.transport.table import BulkTable
from stream_tgat.wire import kind_and_id
from tests.integration.equality.oracle import TOLERANCE, Oracle
from tests.integration.equality.streams import Log
from tests.integration.equality.streams import Record as Produced
from tests.unit.agents.fakes import FakeApp, FakeCluster, Message

PARTITIONS = 2
VERSION = 3
CHANGELOG = "changelog"
PATIENCE_S = 20.0


class Brokers:
    """Topics in memory, what the group has committed, and a producer that writes to them."""

    def __init__(self) -> None:
        self.logs: dict[TP, list[OutgoingRecord]] = defaultdict(list)
        self.committed: dict[TP, int] = {}
        self.kafka = self

    def new_batch(self, capacity_bytes: int) -> BatchBuilder:
        return BatchBuilder(capacity_bytes, 0)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> asyncio.Future[Any]:
        log = self.logs[TP(topic, partition)]
        first = len(log)
        records = MemoryRecords(bytes(batch._build())).next_batch()
        assert records is not None
        log += [OutgoingRecord(each.key, each.value, each.headers) for each in records]
        return _soon(SimpleNamespace(offset=first))

    async def partitions_for(self, topic: str) -> set[int]:
        return set(range(PARTITIONS))


def _soon(result: Any) -> asyncio.Future[Any]:
    """A future that is done when others have had their turn."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: future.done() or future.set_result(result))
    return future


class Disk:
    """What RocksDB holds of each partition: its state and the changelog's offset, written together."""

    def __init__(self) -> None:
        self.stores: dict[int, MemoryStore] = defaultdict(MemoryStore)
        self.offsets: dict[int, int] = {}

    def check_room(self) -> None:
        pass

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.stores[partition].get_many(keys)

    def scan(self, partition: int, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self.stores[partition].scan(prefix)

    def write(self, partition: int, changes: Sequence[Change], offset: int) -> None:
        self.stores[partition].write(changes)
        self.offsets[partition] = offset


class Table:
    """The table with its own commits and rules, on a disk in memory and without Faust."""

    name = "graph"
    max_commit_bytes = 6_000
    check, tenure, _commit = BulkTable.check, BulkTable.tenure, BulkTable._commit
    open_partition, close_partitions = BulkTable.open_partition, BulkTable.close_partitions

    def __init__(self, app: App, disk: Disk) -> None:
        self.app, self.data = app, disk
        self.changelog = Changelog(app, CHANGELOG, self.max_commit_bytes)
        self._open: set[int] = set()
        self._broken: dict[int, BaseException] = {}
        self._tenures: dict[int, Any] = {}

    def store(self, partition: int) -> PartitionStore:
        return PartitionStore(self.data, partition)  # type: ignore[arg-type]

    def recover(self, brokers: Brokers) -> None:
        for partition in range(PARTITIONS):
            log, at = brokers.logs[TP(CHANGELOG, partition)], self.data.offsets.get(partition, -1) + 1
            if log[at:]:
                changes = [(record.key or b"", record.value) for record in log[at:]]
                self.data.write(partition, changes, len(log) - 1)
            self.open_partition(partition, len(log))  # type: ignore[call-arg]


class App(FakeApp):
    """The application, as far as agents and table use it; it is its own consumer too."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__({})
        self.brokers = self.producer = brokers
        self.outbox, self.offsets, self.consumer = Outbox(self, batch_bytes=800), self, self
        self.fence = Fence(lambda: 1, session_s=1e6, heartbeat_limit=0.7, exit_process=lambda _: None)
        self.fence.beat(time.monotonic())
        self.conf = SimpleNamespace(broker_session_timeout=10.0, producer_max_request_size=1 << 20)
        self.positions: dict[TP, int] = {}
        self._done: dict[TP, set[int]] = defaultdict(set)
        self._starts: dict[str, Any] = {}

    def open(self, starts: dict[str, Any]) -> None:
        """Read from where the agents say."""
        self._starts = starts
        self.positions = {TP(topic, p): starts[topic](TP(topic, p)) for topic in starts for p in range(PARTITIONS)}
        for tp, position in self.positions.items():
            self.brokers.committed[tp] = max(position, self.brokers.committed.get(tp, 0))

    def take(self, topics: Sequence[str], limit: int) -> list[Message]:
        """The next records of some topics."""
        found: list[Message] = []
        for tp in self.positions:
            if tp.topic in topics:
                at, log = self.positions[tp], self.brokers.logs[tp]
                taken = log[at : at + limit - len(found)]
                found += [Message(*tp, at + n, each.value, each.key, each.headers) for n, each in enumerate(taken)]
                self.positions[tp] += len(taken)
        return found

    def acknowledge(self, batch: Iterable[Message]) -> None:
        for message in batch:
            self._done[message.tp].add(message.offset)
        for tp, offsets in self._done.items():
            while self.brokers.committed[tp] in offsets:
                self.brokers.committed[tp] += 1

    def acknowledge_to(self, tp: TP, offset: int) -> None:
        self.brokers.committed[tp] = max(self.brokers.committed[tp], offset + 1)

    def hear(self, tp: TP, end: int) -> None:
        self.positions[tp] = max(self.positions[tp], end)

    async def read_again(self, tp: TP) -> None:
        self.positions[tp] = self._starts[tp.topic](tp)

    async def crash(self, reason: BaseException) -> None:
        self.should_stop = True

    def end_seen_at(self, tp: TP) -> float | None:
        return time.time() if self.positions[tp] == len(self.brokers.logs[tp]) else None

    # As consumer

    def backlog(self, tp: TP) -> int:
        return len(self.brokers.logs[tp]) - self.positions[tp]

    async def earliest_offsets(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, 0)

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        pass

    resume_partitions = pause_partitions

    # As offsets

    async def committed(self, topic: str) -> dict[int, int]:
        return {p: self.brokers.committed.get(TP(topic, p), 0) for p in range(PARTITIONS)}

    async def notes(self, topic: str) -> dict[int, str]:
        return dict.fromkeys(range(PARTITIONS), "")


async def read_stream(stream: Any, limit: int, **_: Any) -> Any:
    """As `drain`, without waiting."""
    while not stream.app.should_stop and stream.rounds > 0:
        stream.rounds -= 1
        yield stream.app.take(stream.topics, limit) if stream.app.fence.is_open else []
        await asyncio.sleep(0.0005)


class World:
    """A deployment with a log to work off, and what must come of it."""

    def __init__(self, log: Log) -> None:
        self.topology = Topology.model_validate(
            {
                "name": "t",
                "serving": {"micro_batch": 8, "latest": True},
                "kafka": {"partitions": PARTITIONS},
                "graph": {"node_features": log.node_features, "max_id_bytes": 32},
                "time": {"clock": "event", "allowed_lateness_s": log.allowed_lateness_s},
                "model": {"neighbours": 3, "candidates": 4, "hidden": 8, "time_dim": 4},
                "heads": [{"name": "first", "threshold": 0.5}],
                **tomllib.loads(log.features),
            }
        )
        torch.manual_seed(0)
        self.model = Model(model_config(self.topology)).eval()
        self.policy = AlertPolicy((0.5,), (0.0,))
        self.log = log
        oracle = Oracle(self.topology, self.model, VERSION, self.policy)
        oracle.set_features(log.nodes)
        oracle.take(log.records)
        self.latest = oracle.latest()
        self.expected = {f"{name}/{side}": each for (name, side), each in oracle.embeddings.items()}
        self.unreadable = {f"{partition}/{offset}" for partition, offset in oracle.dead_letters}
        self.renew()

    def renew(self) -> None:
        """As it was before anything was done, with the first half of the log."""
        self.brokers, self.disk, self._is_whole = Brokers(), Disk(), False
        for n, (key, value) in enumerate(self.log.nodes):
            self.brokers.logs[TP(self.topology.topics.nodes, n % PARTITIONS)].append(OutgoingRecord(key, value))
        self._add(self.log.records[: len(self.log.records) // 2])

    def go_on(self) -> None:
        """The second half of the log comes, which rests on what is stored of the first."""
        self._is_whole = True
        self._add(self.log.records[len(self.log.records) // 2 :])

    def _add(self, records: Sequence[Produced]) -> None:
        for record in records:
            log = self.brokers.logs[TP(self.topology.topics.interactions, record.partition)]
            log.append(OutgoingRecord(b"", record.value, record.headers))

    def live(self) -> list[BaseException]:
        """One worker, until all is done or something has failed; returns what left an agent or a listener."""
        return asyncio.run(Life(self).go())

    def is_done(self, propagate: Propagate) -> bool:
        """Whether everything in the log is in some state, and acknowledged."""
        topics, logs = self.topology.topics, self.brokers.logs
        ends = {p: len(logs[TP(topics.propagation, p)]) - 1 for p in range(PARTITIONS)}
        sources = [TP(topic, p) for topic in (topics.interactions, topics.nodes) for p in range(PARTITIONS)]
        return (
            all(self.brokers.committed.get(tp) == len(logs[tp]) for tp in sources)
            and propagate.committed_offsets == ends
            and not (propagate.pending and self._is_whole)
            and not propagate.is_computing
        )

    def assert_complete(self) -> None:
        """All that the oracle says has come, the first time and each time again."""
        came: dict[str, Any] = {}
        for p in range(PARTITIONS):
            for record in self.brokers.logs[TP(self.topology.topics.embeddings, p)]:
                content = orjson.loads(record.value or b"")
                vector = np.array(content["embedding"])
                name = content["id"].rpartition("/")[0]
                assert np.abs(vector - self.expected[name].embedding).max() <= TOLERANCE
                came[name] = vector
        assert came.keys() == self.expected.keys(), f"{len(self.expected.keys() - came.keys())} embeddings are missing"
        newest = {}
        for p in range(PARTITIONS):
            for record in self.brokers.logs[TP(self.topology.topics.latest, p)]:
                newest[record.key] = orjson.loads(record.value or b"")
        assert newest.keys() == {kind_and_id(node) for node in self.latest}
        for node, (time_, degree, embedding) in self.latest.items():
            found = newest[kind_and_id(node)]
            assert (found["timestamp"], found["interactions"], found["complete"]) == (time_, degree, True), node
            assert np.abs(np.array(found["embedding"]) - embedding).max() <= TOLERANCE
        headers = [
            {name: value.decode() for name, value in record.headers}
            for p in range(PARTITIONS)
            for record in self.brokers.logs[TP(self.topology.topics.dead_letters, p)]
        ]
        assert {f"{each['source-partition']}/{each['source-offset']}" for each in headers} == self.unreadable


class Life:
    """One worker."""

    def __init__(self, world: World) -> None:
        self.world = world
        topology, topics, model = world.topology, world.topology.topics, world.model
        self.app = App(world.brokers)
        self.table = Table(self.app, world.disk)
        layout, metrics, throttle = packet_layout(topology, model), Metrics(), Throttle(1000, 6)
        engine = Engine(
            model, VERSION, id_bytes=topology.id_bytes, cache_bytes=1 << 22, alerts=world.policy, max_wait_s=None
        )
        cluster = FakeCluster({topics.interactions: [1 << 20] * PARTITIONS, topics.nodes: [1 << 20] * PARTITIONS})
        app: Any = self.app
        table: Any = self.table
        of_cluster: Any = cluster
        counts = dict.fromkeys((topics.propagation, topics.embeddings, topics.alerts, topics.latest), PARTITIONS)
        serving = ServingEngine(VERSION, engine, layout, 0)
        self.thread = EngineThread(topology, serving, counts, {}, None, table.max_commit_bytes)
        sources = Sources(topology, of_cluster, {})
        self.propagate = Propagate(app, topology, table, self.thread, sources, throttle, metrics)
        packer = Packer(topology, layout, PARTITIONS, 100_000)
        packer.max_interactions = 6
        self.ingest = Ingest(app, topology, packer, throttle, self.propagate, metrics)
        self._failures: list[BaseException] = []

    async def go(self) -> list[BaseException]:
        """Work until all is done or something has failed, then hand the partitions over."""
        topics = self.world.topology.topics
        tps = frozenset(
            TP(topic, p) for topic in (topics.propagation, topics.interactions, topics.nodes) for p in range(PARTITIONS)
        )
        agents: list[asyncio.Task[None]] = []
        self.table.recover(self.world.brokers)
        self.app.fence.open(1)
        try:
            await self._note(self.propagate.on_recovered(tps))
            await self._note(self.ingest.on_recovered(tps))
            if not self._failures:
                of_ingest, of_propagate = self.ingest.start_offset, self.propagate.start_offset
                starts = {topics.interactions: of_ingest, topics.nodes: of_ingest, topics.propagation: of_propagate}
                self.app.open(starts)
                agents = [
                    self._agent(self.ingest, topics.interactions, topics.nodes),
                    self._agent(self.propagate, topics.propagation),
                ]
                await self._work()
        finally:
            await self._hand_over(tps)
            # They end by themselves, as the application stops.
            await asyncio.gather(*agents)
            self.thread._thread.shutdown()
        return self._failures

    def _agent(self, agent: Any, *topics: str) -> asyncio.Task[None]:
        channel = SimpleNamespace(queue=SimpleNamespace(wake=lambda: None))
        stream = SimpleNamespace(app=self.app, topics=topics, channel=channel, rounds=inf)
        return asyncio.create_task(self._note(self._run(agent, stream)))

    async def _run(self, agent: Any, stream: Any) -> None:
        """As Faust does it: an agent that has failed is started once more while the application begins to stop."""
        try:
            await agent.run(stream)
        except BaseException:
            stream.rounds = 0 if self.app.should_stop else 3
            with suppress(Exception):
                await agent.run(stream)
            raise

    async def _note(self, work: Any) -> None:
        """An error that leaves an agent or a listener stops the application."""
        try:
            await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            self._failures.append(error)
            await self.app.crash(error)

    async def _work(self) -> None:
        limit = time.monotonic() + PATIENCE_S
        # The same weights under another number: nothing else changes.
        again: Ready | None = Ready(VERSION + 1, "again", self.world.model, self.world.policy)
        while not self.app.should_stop and not self.world.is_done(self.propagate):
            if again is not None and len(self.world.brokers.logs[TP(self.world.topology.topics.embeddings, 0)]) > 2:
                self.propagate.renew(again)
                again = None
            assert time.monotonic() < limit, "nothing has failed, and it does not end"
            await asyncio.sleep(0.001)

    async def _hand_over(self, tps: frozenset[TP]) -> None:
        self.app.should_stop = True
        self.app.fence.last_call()
        await self._note(self.propagate.on_revoked(tps))
        await self._note(self.ingest.on_revoked(tps))
        await self.app.fence.close()
        self.table.close_partitions()
