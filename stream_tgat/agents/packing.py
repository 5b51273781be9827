"""From records as users produce them to packets for the owners of their nodes. It knows the wire, and no Kafka client.

A batch of any number of sources becomes at most one packet per partition of `propagation`: a record is atomic in the
log, so a receiver sees all of a block or nothing of it, and a failed delivery can leave no gap behind.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.agents.dead_letters import Refused
from stream_tgat.agents.progress import NOTHING
from stream_tgat.agents.watermarks import NodesClock, SourceClock
from stream_tgat.topology import Topology
from stream_tgat.wire import DeadLetter, Headers, InteractionDecoder, NodeDecoder, Punctuation
from stream_tgat.wire.packets import (
    UNKNOWN,
    Block,
    Entries,
    PacketLayout,
    Source,
    SourceTopic,
    encode_packet,
    partitions_of,
)

#: Room for all that is in a packet beside its entries.
_OVERHEAD_BYTES = 16_384


class SourceRecord(Protocol):
    """What is read of a consumed record; Faust's messages have it. timestamp: unix seconds at which it was written"""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Headers | None


@dataclass(slots=True)
class SourceState:
    """Where ingest is in one source.

    position: offset of the next record to hand on.
    announced, is_idle: what was sent last, see `SourceProgress`.
    """

    clock: SourceClock | NodesClock
    position: int
    announced: float = NOTHING
    is_idle: bool = False


@dataclass(frozen=True)
class Packed:
    """One cycle of ingest, ready to be sent.

    packets: one for each partition of `propagation`, None where there is nothing to say.
    refused: records for the dead letters.   ends: the new position of each source.   watermarks: what is announced.
    """

    packets: list[bytes | None]
    refused: list[Refused]
    ends: dict[Source, int]
    watermarks: dict[Source, float]
    interactions: int = 0
    nodes: int = 0


class _Timed(NamedTuple):
    """What a record says of time; position: of its interaction among those of the cycle, or of the next."""

    position: int
    time: float
    is_punctuation: bool
    written: float


@dataclass
class _Interactions:
    """Good interactions of one cycle, as parallel lists in order of source and offset."""

    source: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    id: list[bytes] = field(default_factory=list)
    user: list[bytes] = field(default_factory=list)
    item: list[bytes] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    record: list[SourceRecord] = field(default_factory=list)


class Packer:
    """Decodes, encodes features, and sorts by owner."""

    def __init__(self, topology: Topology, layout: PacketLayout, partitions: int, max_packet_bytes: int) -> None:
        self._layout = layout
        self._partitions = partitions
        self._topic = topology.topics.interactions
        self._interactions = InteractionDecoder(topology)
        self._nodes = NodeDecoder(topology)
        self._encoder = topology.encoder
        # All half-edges of a cycle may have one owner, and still have to fit into one packet.
        self.max_interactions = max(1, (max_packet_bytes - _OVERHEAD_BYTES) // (2 * layout.half_edge.itemsize))
        self.max_nodes = max(1, (max_packet_bytes - _OVERHEAD_BYTES) // layout.feature.itemsize)

    def pack(
        self,
        batch: Mapping[Source, Sequence[SourceRecord]],
        sources: Mapping[Source, SourceState],
        caught_up: Mapping[Source, float],
        now: float,
        idle: Collection[Source] = (),
    ) -> Packed:
        """One cycle: records of some sources, in offset order, and the clock at the end of those that are caught up.

        sources: where each source is; clocks move on here, positions only once the packets are acknowledged.
        caught_up: sources whose end is reached with this batch, and the unix time up to which that is known.
        now: unix time at which the records were read.   idle: sources without records that hold nobody back any more.
        """
        refused: list[Refused] = []
        good = _Interactions()
        order = sorted({*batch, *caught_up, *idle})
        times: list[list[_Timed]] = [[] for _ in order]
        features: dict[int, list[tuple[int, bytes, NDArray[np.float32]]]] = {}
        for index, source in enumerate(order):
            records = batch.get(source, ())
            if source.topic is SourceTopic.NODES:
                features[index] = self._decode_nodes(records, refused)
            else:
                self._decode_interactions(index, records, now, good, times[index], refused)
        edge, errors = self._encoder.encode(good.fields)
        wrong = np.array([error is not None for error in errors], np.bool_)
        refused += [Refused.of(good.record[at], str(errors[at])) for at in np.flatnonzero(wrong)]
        half_edges, source_of = self._half_edges(good, edge, ~wrong)
        self._advance(order, sources, ~wrong, times, caught_up)
        written = {source: _written(records, now) for source, records in batch.items() if records}
        blocks = self._blocks(order, batch, sources, half_edges, source_of, features, idle, written)
        return Packed(
            packets=[encode_packet(self._layout, part) if part else None for part in blocks],
            refused=refused,
            ends={source: batch[source][-1].offset + 1 for source in batch if batch[source]},
            watermarks={source: sources[source].clock.watermark for source in order},
            interactions=int(np.count_nonzero(~wrong)),
            nodes=sum(map(len, features.values())),
        )

    def _decode_interactions(
        self,
        index: int,
        records: Sequence[SourceRecord],
        now: float,
        good: _Interactions,
        times: list[_Timed],
        refused: list[Refused],
    ) -> None:
        decode = self._interactions.decode
        for record in records:
            # Where producers say when a record was written, that may lie in the future, of which nothing is known.
            offset, written = record.offset, min(record.timestamp, now)
            decoded = decode(record.value, record.headers, self._topic, record.partition, offset, record.timestamp)
            if isinstance(decoded, DeadLetter):
                refused.append(Refused.of(record, decoded.reason))
            elif isinstance(decoded, Punctuation):
                times.append(_Timed(len(good.id), decoded.watermark, True, written))
            else:
                times.append(_Timed(len(good.id), decoded.timestamp, False, written))
                good.source.append(index)
                good.offset.append(offset)
                good.id.append(decoded.id)
                good.user.append(decoded.user)
                good.item.append(decoded.item)
                good.time.append(decoded.timestamp)
                good.fields.append(decoded.fields)
                good.record.append(record)

    def _decode_nodes(
        self, records: Sequence[SourceRecord], refused: list[Refused]
    ) -> list[tuple[int, bytes, NDArray[np.float32]]]:
        features = []
        for record in records:
            decoded = self._nodes.decode(record.value, record.headers)
            if isinstance(decoded, DeadLetter):
                refused.append(Refused.of(record, decoded.reason))
            else:
                features.append((record.offset, decoded.node, decoded.features))
        return features

    def _half_edges(
        self, good: _Interactions, edge: NDArray[np.float32], keep: NDArray[np.bool_]
    ) -> tuple[Entries, NDArray[np.int64]]:
        """Both halves of the good interactions next to each other: entries [2n], and the index of their source [2n]."""
        count = int(keep.sum())
        entries = np.zeros(2 * count, self._layout.half_edge)
        key = f"S{self._layout.id_bytes}"
        users = np.array(good.user, key)[keep]
        items = np.array(good.item, key)[keep]
        for half, (node, peer) in enumerate(((users, items), (items, users))):
            part = entries[half::2]
            part["offset"] = np.array(good.offset, np.int64)[keep]
            part["time"] = np.array(good.time, np.float64)[keep]
            part["node"] = node
            part["peer"] = peer
            part["interaction"] = np.array(good.id, key)[keep]
            part["side"] = half
            part["edge"] = edge[keep]
        return entries, np.repeat(np.array(good.source, np.int64)[keep], 2)

    def _advance(
        self,
        order: Sequence[Source],
        sources: Mapping[Source, SourceState],
        keep: NDArray[np.bool_],
        times: Sequence[list[_Timed]],
        caught_up: Mapping[Source, float],
    ) -> None:
        """Move the clocks on."""
        for index, source in enumerate(order):
            clock = sources[source].clock
            if isinstance(clock, NodesClock):
                if source in caught_up:
                    clock.caught_up()
                continue
            # A time that went to the dead letters must not move the watermark.
            valid = [each for each in times[index] if each.is_punctuation or keep[each.position]]
            clock.read(
                np.array([each.time for each in valid], np.float64),
                np.array([each.is_punctuation for each in valid], np.bool_),
                np.array([each.written for each in valid], np.float64),
            )
            if source in caught_up:
                clock.caught_up(caught_up[source])

    def _blocks(
        self,
        order: Sequence[Source],
        batch: Mapping[Source, Sequence[SourceRecord]],
        sources: Mapping[Source, SourceState],
        half_edges: Entries,
        source_of: NDArray[np.int64],
        features: Mapping[int, list[tuple[int, bytes, NDArray[np.float32]]]],
        idle: Collection[Source],
        written: Mapping[Source, tuple[float, float]],
    ) -> list[list[Block]]:
        """The blocks for each partition of `propagation`: of all sources that have something new to say."""
        count = self._partitions
        owner = self._owners(half_edges["node"].tolist())
        place = owner * len(order) + source_of
        half_edges = half_edges[np.argsort(place, kind="stable")]
        cuts = np.cumsum(np.bincount(place, minlength=count * len(order)))
        blocks: list[list[Block]] = [[] for _ in range(count)]
        for index, source in enumerate(order):
            state = sources[source]
            records, is_idle = batch.get(source), source in idle
            if not records and state.clock.watermark <= state.announced and is_idle == state.is_idle:
                continue
            end = records[-1].offset + 1 if records else state.position
            times = written.get(source, UNKNOWN)
            mine = self._feature_entries(features[index]) if index in features else None
            for partition in range(count):
                if mine is None:
                    at = partition * len(order) + index
                    entries = half_edges[cuts[at - 1] if at else 0 : cuts[at]]
                else:
                    entries = mine[0][mine[1] == partition]
                block = Block(source, state.position, end, state.clock.watermark, entries, is_idle, times)
                blocks[partition].append(block)
        return blocks

    def _feature_entries(
        self, features: Sequence[tuple[int, bytes, NDArray[np.float32]]]
    ) -> tuple[Entries, NDArray[np.int64]]:
        entries = np.zeros(len(features), self._layout.feature)
        if features:
            entries["offset"] = [offset for offset, _, _ in features]
            entries["node"] = [node for _, node, _ in features]
            entries["vector"] = [vector for _, _, vector in features]
        return entries, self._owners([node for _, node, _ in features])

    def _owners(self, nodes: Sequence[bytes]) -> NDArray[np.int64]:
        return partitions_of(nodes, self._partitions)


def _written(records: Sequence[SourceRecord], now: float) -> tuple[float, float]:
    """When the first and the last of these were written; where producers say so that may lie in the future."""
    return min(records[0].timestamp, now), min(records[-1].timestamp, now)
