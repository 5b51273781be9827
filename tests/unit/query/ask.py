"""Deployments without Kafka: engines that have seen a stream, each with some partitions, and who asks them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from stream_tgat.client import Alert, Because, Embedding
from stream_tgat.engine import AlertPolicy, Engine, HalfEdges, both_halves
from stream_tgat.query.asking import Asking
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.directory import Directory
from stream_tgat.query.endpoint import Endpoint
from stream_tgat.query.owners import Ownership
from stream_tgat.query.watching.memory import Memory
from stream_tgat.query.watching.reports import Watching
from stream_tgat.query.workers import Workers
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Kind, Topology
from stream_tgat.wire import DecodedLabel
from stream_tgat.wire.packets import partitions_of
from tests.unit.nn.models import random_model

PARTITIONS = 4
VERSION = 7


def shop(**sections: Any) -> Topology:
    content: dict[str, Any] = {
        "name": "shop",
        "kafka": {"partitions": PARTITIONS},
        "time": {"clock": "event"},
        "model": {"neighbours": 3, "candidates": 6, "hidden": 8, "time_dim": 4, "layers": 2},
        "features": [
            {"name": "price", "kind": "number", "log1p": True},
            {"name": "channel", "kind": "category", "values": ["web", "app"]},
        ],
        "heads": [{"name": "returns", "threshold": 0.5}],
    }
    return Topology.model_validate(content | sections)


def model_for(topology: Topology, **config: Any) -> Any:
    shape = topology.model
    return random_model(
        torch.float32,
        layers=shape.layers,
        neighbours=shape.neighbours,
        candidates=shape.candidates,
        edge_features=topology.edge_width,
        head_names=topology.head_names,
        **config,
    )


def purchases(topology: Topology, count: int = 60, seed: int = 0) -> HalfEdges:
    """Users u0 … u4 and items i0 … i5, one a second."""
    rng = np.random.default_rng(seed)
    records = [
        {"price": float(price), "channel": ("web", "app")[k % 2]} for k, price in enumerate(rng.integers(1, 90, count))
    ]
    edge, _ = topology.encoder.encode(records)
    return both_halves(
        np.array([topology.node_key("user", f"u{k}") for k in rng.integers(0, 5, count)]),
        np.array([topology.node_key("item", f"i{k}") for k in rng.integers(0, 6, count)]),
        np.array([b"p%03d" % k for k in range(count)]),
        1000.0 + np.arange(count, dtype=np.float64),
        edge,
    )


def engine_over(topology: Topology, model: Any, half_edges: HalfEdges, version: int = VERSION) -> Engine:
    """One engine with all partitions open, that has seen all of it as a stream does."""
    engine = Engine(
        model,
        version,
        id_bytes=topology.id_bytes,
        alerts=AlertPolicy((0.5,) * len(topology.heads), (0.0,) * len(topology.heads)),
    )
    stores = [MemoryStore() for _ in range(PARTITIONS)]
    for partition, store in enumerate(stores):
        engine.open(partition, store)
    for at in range(0, len(half_edges), 2):
        part = half_edges.take(slice(at, at + 2))
        engine.append(partitions_of(part.node.tolist(), PARTITIONS).astype(np.int32), part)
        while (computed := engine.compute(dict.fromkeys(range(PARTITIONS), np.inf), 64)).rows:
            for peer_embeddings in computed.peer_embeddings:
                engine.fill(partitions_of(peer_embeddings.node.tolist(), PARTITIONS).astype(np.int32), peer_embeddings)
    return engine


@dataclass
class FakeWorker:
    """What an endpoint asks of its worker: an engine, and the partitions that it has now.

    slices: how many questions each look has answered   goes_on: nothing is looked at before it is set
    """

    engine: Engine
    partitions: set[int]
    passed: float = 2000.0
    reason: str | None = None
    slices: list[int] = field(default_factory=list)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.goes_on.set()

    async def look(self, work: Callable[..., Any]) -> Any:
        await self.goes_on.wait()
        await asyncio.sleep(0)
        received = {partition: SimpleNamespace(passed=self.passed) for partition in self.partitions}
        answers = work(self.engine, received)
        self.slices.append(len(answers))
        return answers

    def why_not(self) -> str | None:
        return self.reason


def catalog_of(half_edges: HalfEdges, model: int = VERSION) -> Catalog:
    """What a service knows that has read the outputs: some vector of each node, and when items were met."""
    catalog, rng = Catalog(), np.random.default_rng(3)
    for key, at in zip(half_edges.node.tolist(), half_edges.time.tolist(), strict=True):
        kind: Kind = "user" if key[:1] == b"u" else "item"
        catalog.put(key[1:].decode(), kind, model, rng.standard_normal(8).astype(np.float32))
        if kind == "item":
            catalog.items.met(key[1:].decode(), at)
    return catalog


def embedding_of(interaction: str, node: str, peer: str, time_: float, side: str, **also: Any) -> Embedding:
    """A record of `embeddings`; of an item where `side` is "item"."""
    content: dict[str, Any] = {
        "id": f"{interaction}/{time_}/{node}/{peer}/{int(side == 'item')}/{VERSION}",
        "interaction": interaction,
        "node": node,
        "kind": side,
        "peer": peer,
        "timestamp": time_,
        "embedding": np.array([1.0, 0.0], np.float32),
        "predictions": {"returns": 0.25} if side == "user" else {},
        "model": VERSION,
    }
    return Embedding(**content | also)


def watching_of(topology: Topology, half_edges: HalfEdges) -> Watching:
    """What a service has seen that has read the outputs: some vector of each half-edge, one alert that came true."""
    memory, rng = Memory(topology), np.random.default_rng(4)
    keys, peers = half_edges.node.tolist(), half_edges.peer.tolist()
    for key, peer, name, at in zip(keys, peers, half_edges.interaction.tolist(), half_edges.time.tolist(), strict=True):
        side: Kind = "user" if key[:1] == b"u" else "item"
        vector = rng.standard_normal(8).astype(np.float32)
        each = embedding_of(name.decode(), key[1:].decode(), peer[1:].decode(), at, side, embedding=vector)
        memory.embedded(each, side, vector, at)
    first = memory.remembered.moments(("user", "u1"), 1000)[0]
    because = (Because("p000", "i1", first.time - 5.0, 0.75),)
    memory.raised(
        Alert("a", first.interaction, "u1", "user", first.peer, "returns", 0.6, 0.5, first.time, VERSION, because)
    )
    memory.turned_out("u1", DecodedLabel(b"uu1", "returns", 1.0, first.time, first.time + 9.0))
    return Watching(topology, memory, Catalog(), promoted=list)


class FakeOwners:
    """The group, as it is told to be."""

    def __init__(self) -> None:
        self.address: dict[int, str] = {}
        self.asked = 0
        self.known = Ownership({}, "not asked yet", -1.0)

    async def look(self, than: Ownership | None = None) -> Ownership:
        await asyncio.sleep(0.01)
        self.asked += 1
        missing = set(range(PARTITIONS)) - self.address.keys()
        self.known = Ownership(
            dict(self.address), f"no worker has partitions {sorted(missing)}" if missing else None, time.monotonic()
        )
        return self.known

    async def close(self) -> None:
        pass


@dataclass
class Deployment:
    """Workers that listen on loopback, and who asks them."""

    topology: Topology
    workers: list[FakeWorker]
    addresses: list[str]
    owners: FakeOwners
    asking: Asking
    directory: Directory
    connections: Workers

    def move(self, partition: int, to: int | None) -> None:
        """To a worker, or to none; the group does not know before it is asked."""
        for worker in self.workers:
            worker.partitions.discard(partition)
        self.owners.address.pop(partition, None)
        if to is not None:
            self.workers[to].partitions.add(partition)
            self.owners.address[partition] = self.addresses[to]


@asynccontextmanager
async def deployment(
    topology: Topology, engines: Sequence[Engine], *, token: str | None = None, passed: float = 2000.0
) -> Any:
    """One worker for each engine; the first has all partitions."""
    workers = [FakeWorker(engine, set(), passed) for engine in engines]
    endpoints = [Endpoint(topology, worker, worker.why_not) for worker in workers]
    addresses = [(await endpoint.start()).partition("://")[2] for endpoint in endpoints]
    owners = FakeOwners()
    connections = Workers(owners, token)  # type: ignore[arg-type]
    asking = Asking(connections, PARTITIONS)
    made = Deployment(topology, workers, addresses, owners, asking, Directory(topology, asking), connections)
    for partition in range(PARTITIONS):
        made.move(partition, 0)
    try:
        yield made
    finally:
        await connections.close()
        for endpoint in endpoints:
            await endpoint.stop()
