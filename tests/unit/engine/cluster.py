"""A whole stream in one thread: partitions with logs, stores and crashes, driven step by step by a random generator.

Each partition has a log of records (half-edges, peer embeddings, watermarks) that is applied in order and never lost, a
store, and a position that is committed with the state. Everything else may happen in any order.
"""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_tgat.engine import Engine, FinalEmbeddings, HalfEdges, PeerEmbeddings
from stream_tgat.storage.stores import MemoryStore
from tests.unit.engine.oracle import Key, keys_of

PROGRESS = b"\x00progress"


@dataclass
class Partition:
    log: list[HalfEdges | PeerEmbeddings | float] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    blocks: list[HalfEdges | float] = field(default_factory=list)  # sent by the source, not yet in the log
    position: int = 0
    watermark: float = -np.inf
    # Taken from the engine and not in the store yet: with the progress that goes with them, and whether all but that.
    flying: list[tuple[list[tuple[bytes, bytes | None]], bool]] = field(default_factory=list)


class Cluster:
    """One engine over P partitions; `draw` decides everything that order leaves open."""

    def __init__(self, engine: Engine, partitions: int, draw: random.Random) -> None:
        self.engine, self.draw = engine, draw
        self.partitions = [Partition() for _ in range(partitions)]
        self.emitted: dict[Key, Any] = {}
        self.predicted: dict[Key, Any] = {}
        self.first_order: dict[bytes, list[Key]] = {}
        self.largest_difference = 0.0
        for number, partition in enumerate(self.partitions):
            engine.open(number, partition.store)

    def partition_of(self, node: bytes) -> int:
        return zlib.crc32(node) % len(self.partitions)

    def feed(self, half_edges: HalfEdges) -> None:
        """The source reads these, in this order, and is as far as it can be sure of."""
        left = np.minimum.accumulate(half_edges.time[::-1])[::-1]
        at = 0
        while at < len(half_edges):
            end = min(len(half_edges), at + 2 * self.draw.randint(1, 6))
            block = half_edges.take(slice(at, end))
            for number, partition in enumerate(self.partitions):
                mine = [k for k, node in enumerate(block.node.tolist()) if self.partition_of(node) == number]
                partition.blocks.append(block.take(np.array(mine, np.int64)))
                partition.blocks.append(float(left[end]) if end < len(left) else np.inf)
            at = end

    def run(self, crashes: bool = True) -> None:
        """Random steps until there is nothing left to do."""
        steps = [self._send, self._receive, self._receive, self._compute, self._compute, self._take, self._land]
        for _ in range(100_000):
            if crashes and self.draw.random() < 0.03:
                self._crash(self.draw.randrange(len(self.partitions)))
            if self._idle():
                break
            self.draw.choice(steps)()
        else:
            raise AssertionError("the stream hangs")
        for number, partition in enumerate(self.partitions):
            self._take(number)
            while partition.flying:
                self._land(number, dying=0.1 if len(partition.flying) == 1 else 0.0)

    def _idle(self) -> bool:
        read = all(not p.blocks and p.position == len(p.log) for p in self.partitions)
        return read and self.engine.pending() == 0

    def _send(self) -> None:
        partition = self.draw.choice(self.partitions)
        for _ in range(min(len(partition.blocks), self.draw.randint(1, 3))):
            record = partition.blocks.pop(0)
            partition.log.append(record)

    def _receive(self) -> None:
        number = self.draw.randrange(len(self.partitions))
        partition = self.partitions[number]
        for _ in range(min(len(partition.log) - partition.position, self.draw.randint(1, 5))):
            record = partition.log[partition.position]
            if isinstance(record, float):
                partition.watermark = max(partition.watermark, record)
            elif isinstance(record, PeerEmbeddings):
                self.engine.fill(number, record)
            elif len(record):
                # Whoever reads the log skips what it has read, so repeats of half-edges come only while rows are kept.
                for _ in range(1 + (self.draw.random() < 0.1)):
                    self.engine.append(number, record)
            partition.position += 1

    def _compute(self) -> None:
        chosen = [k for k in range(len(self.partitions)) if self.draw.random() < 0.7]
        watermarks = {number: self.partitions[number].watermark for number in chosen}
        computed = self.engine.compute(watermarks, self.draw.randint(1, 12))
        for peer_embeddings in computed.peer_embeddings:
            order = list(range(len(peer_embeddings)))
            self.draw.shuffle(order)
            for k in order:
                one = peer_embeddings.take(np.array([k]))
                log = self.partitions[self.partition_of(bytes(one.node[0]))].log
                log += [one] * (2 if self.draw.random() < 0.1 else 1)
        self._emit(computed.embeddings)

    def _emit(self, embeddings: FinalEmbeddings) -> None:
        for k, key in enumerate(keys_of(embeddings)):
            vector = embeddings.embedding[k]
            if key in self.emitted:
                self.largest_difference = max(self.largest_difference, float(np.abs(self.emitted[key] - vector).max()))
                continue
            self.emitted[key] = vector
            self.predicted[key] = embeddings.predictions[k]
            self.first_order.setdefault(bytes(embeddings.node[k]), []).append(key)

    def _take(self, number: int | None = None) -> None:
        """Changes leave for the store; the engine goes on while they are under way."""
        number = self.draw.randrange(len(self.partitions)) if number is None else number
        partition = self.partitions[number]
        changes = self.engine.take_changes(number)
        progress = struct.pack("<qd", partition.position, partition.watermark)
        partition.flying.append(([*changes, (PROGRESS, progress)], bool(changes)))

    def _land(self, number: int | None = None, dying: float = 0.1) -> None:
        """The oldest changes under way arrive, in one piece; the engine may die before it hears of it."""
        number = self.draw.randrange(len(self.partitions)) if number is None else number
        partition = self.partitions[number]
        if not partition.flying:
            return
        changes, counts = partition.flying.pop(0)
        partition.store.write(changes)
        if self.draw.random() < dying:
            self._crash(number)
        elif counts:
            self.engine.committed(number)

    def _crash(self, number: int) -> None:
        partition = self.partitions[number]
        partition.flying.clear()
        self.engine.drop(number)
        self.engine.open(number, partition.store)
        stored = partition.store.get_many([PROGRESS])[0]
        partition.position, partition.watermark = struct.unpack("<qd", stored) if stored else (0, -np.inf)
