"""What must come out: one engine, one partition, one pass over the time-sorted log, as single-minded as can be.

It reads the records as produced, with the decoders of the wire, and decides on its own what is late. No Kafka, no
packets, no watermarks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import AlertPolicy, Engine, FinalEmbeddings, HalfEdges, ThresholdCrossing
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology, split_node_key
from stream_tgat.wire import (
    DeadLetter,
    DecodedInteraction,
    InteractionDecoder,
    NodeDecoder,
    Punctuation,
    interaction_name,
)
from tests.integration.equality.streams import Record
from tests.kept_rows import KeptRows, kept_rows

TOLERANCE = 1e-5


@dataclass(frozen=True)
class Vector:
    """What is expected of one embedding."""

    node: bytes
    time: float
    late: bool
    embedding: NDArray[np.float32]
    predictions: NDArray[np.float32]


@dataclass
class Oracle:
    """Takes logs whose records all came before those of the next call, and remembers what must have come out.

    embeddings: by (interaction, side)   alerts: by (interaction, head), the interaction as `interaction_name` has it
    repeats: interactions that came again, alike in id, user, item and time; they are dropped
    """

    topology: Topology
    model: Model
    version: int
    policy: AlertPolicy
    topic_offsets: dict[int, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    newest: dict[bytes, float] = field(default_factory=dict)
    behind: set[tuple[str, int]] = field(default_factory=set)
    embeddings: dict[tuple[str, int], Vector] = field(default_factory=dict)
    alerts: dict[tuple[str, str], ThresholdCrossing] = field(default_factory=dict)
    order: dict[bytes, list[tuple[str, int]]] = field(default_factory=dict)
    dead_letters: set[tuple[int, int]] = field(default_factory=set)
    repeats: int = 0

    def __post_init__(self) -> None:
        self.decoder = InteractionDecoder(self.topology)
        self.engine = Engine(
            self.model,
            self.version,
            id_bytes=self.topology.id_bytes,
            cache_bytes=1 << 30,
            alerts=self.policy,
            max_wait_s=None,
        )
        self.engine.open(0, MemoryStore())

    def set_features(self, nodes: Iterable[tuple[bytes, bytes]]) -> None:
        """Node features, before the interactions that follow: (key, value) of the topic `nodes`."""
        decoder = NodeDecoder(self.topology)
        decoded = [decoder.decode(value, None) for _, value in nodes]
        good = [each for each in decoded if not isinstance(each, DeadLetter)]
        if good:
            keys = np.array([each.node for each in good], f"S{self.topology.id_bytes}")
            self.engine.set_features(0, keys, np.stack([each.features for each in good]))

    def take(self, records: Sequence[Record], batch: int = 200) -> None:
        """One pass over these records, sorted by time."""
        half_edges = self.half_edges(records)
        half_edges = half_edges.take(np.argsort(half_edges.time, kind="stable"))
        halves = list(zip(half_edges.node.tolist(), half_edges.time.tolist(), strict=True))
        names = [(name, int(side)) for name, side in zip(names_of(half_edges), half_edges.side, strict=True)]
        # All that came before is computed, so what is older than its node's newest row comes behind.
        self.behind |= {
            (name, side)
            for (node, then), (name, side) in zip(halves, names, strict=True)
            if then < self.newest.get(node, -inf)
        }
        for node, then in halves:
            self.newest[node] = max(then, self.newest.get(node, -inf))
        for first in range(0, len(half_edges), batch):
            self.engine.append(0, half_edges.take(slice(first, first + batch)))
            # Beyond the time of what comes next: the rows of one time belong together, wherever a batch is cut.
            self._compute(half_edges.time[first + batch] if first + batch < len(half_edges) else inf)
        assert not self.engine.pending(), (
            "the oracle cannot go on: something waits for a peer embedding that never comes"
        )

    def half_edges(self, records: Sequence[Record]) -> HalfEdges:
        """Both halves of each good interaction in the order of the log, without those that it has had before."""
        decoded = [self._decode(record) for record in records]
        read = [each for _, each in decoded if isinstance(each, DecodedInteraction)]
        edge, errors = self.topology.encoder.encode([each.fields for each in read])
        wrong = {id(each) for each, error in zip(read, errors, strict=True) if error is not None}
        edge = edge[[error is None for error in errors]]
        found = []
        for (partition, offset), each in decoded:
            if isinstance(each, DeadLetter) or id(each) in wrong:
                self.dead_letters.add((partition, offset))
            elif not isinstance(each, Punctuation):
                found.append(each)
        width = f"S{self.topology.id_bytes}"
        users = np.array([each.user for each in found], width)
        items = np.array([each.item for each in found], width)
        half_edges = HalfEdges(
            node=np.stack([users, items], 1).reshape(-1),
            peer=np.stack([items, users], 1).reshape(-1),
            interaction=np.repeat(np.array([each.id for each in found], width), 2),
            side=np.tile(np.array([0, 1], np.uint8), len(found)),
            time=np.repeat(np.array([each.timestamp for each in found], np.float64), 2),
            edge=np.repeat(edge, 2, axis=0),
        )
        is_new = np.zeros(len(half_edges), np.bool_)
        for at, name in enumerate(names_of(half_edges)[::2]):
            if name in self.known:
                self.repeats += 1
            else:
                self.known.add(name)
                is_new[2 * at : 2 * at + 2] = True
        return half_edges.take(is_new)

    def _decode(self, record: Record) -> tuple[tuple[int, int], DecodedInteraction | Punctuation | DeadLetter]:
        """A record with its partition and offset: nobody else writes into the topic."""
        offset = self.topic_offsets.get(record.partition, 0)
        self.topic_offsets[record.partition] = offset + 1
        topic = self.topology.topics.interactions
        now = time.time()
        decoded = self.decoder.decode(record.value, record.headers, topic, record.partition, offset, now)
        return (record.partition, offset), decoded

    def neighbourhoods(self) -> dict[bytes, KeptRows]:
        """The rows kept of every node that has had an interaction."""
        return {node: kept_rows(self.engine, 0, node) for node in self.order}

    def latest(self) -> dict[bytes, tuple[float, int, NDArray[np.float32]]]:
        """Of every node that has had an interaction: when the newest was, how many, and the embedding just after it."""
        kept = self.neighbourhoods()
        newest = np.array([each.time[-1] for each in kept.values()])
        embedded = self.engine.embed(0, np.array(list(kept)), np.nextafter(newest, np.inf))
        return {
            node: (float(time), each.degree, vector)
            for (node, each), time, vector in zip(kept.items(), newest, embedded, strict=True)
        }

    def _compute(self, watermark: float) -> None:
        while True:
            computed = self.engine.compute({0: watermark}, 1 << 20)
            for peer_embeddings in computed.peer_embeddings:
                self.engine.fill(0, peer_embeddings)
            self._remember(computed.embeddings)
            for alert in computed.alerts:
                ends = split_node_key(alert.node)[1], split_node_key(alert.peer)[1]
                self.alerts[interaction_name(alert.interaction.decode(), alert.time, *ends), alert.head] = alert
            self.engine.save(0)
            if not computed.rows:
                return

    def _remember(self, found: FinalEmbeddings) -> None:
        for n, name in enumerate(names_of(found)):
            key = (name, int(found.side[n]))
            node = bytes(found.node[n])
            assert key not in self.embeddings
            self.embeddings[key] = Vector(
                node, float(found.time[n]), key in self.behind, found.embedding[n], found.predictions[n]
            )
            self.order.setdefault(node, []).append(key)


def names_of(halves: HalfEdges | FinalEmbeddings) -> list[str]:
    """The interaction of each, by one name of all that it is."""
    columns = (halves.interaction, halves.time, halves.node, halves.peer, halves.side)
    names = []
    for interaction, then, node, peer, side in zip(*(column.tolist() for column in columns), strict=True):
        user, item = (node, peer) if side == 0 else (peer, node)
        names.append(interaction_name(interaction.decode(), then, split_node_key(user)[1], split_node_key(item)[1]))
    return names


def threshold(probabilities: NDArray[np.float64]) -> float:
    """One that many predictions cross and none comes near: in the widest gap of the middle half.

    Of a million predictions none is far from the next there; then in the widest gap below the largest hundred.
    """
    ordered = np.sort(probabilities)
    count = len(ordered)
    for last in (3 * count // 4 + 1, count - 100):
        middle = ordered[count // 4 : last]
        at = int(np.argmax(np.diff(middle)))
        if middle[at + 1] - middle[at] > 4 * TOLERANCE:
            return float((middle[at] + middle[at + 1]) / 2)
    raise AssertionError("predictions lie too close together for a threshold that none comes near")
