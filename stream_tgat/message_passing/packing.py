"""From records as users produce them to packets for the owners of their nodes. It knows the wire, and no Kafka client.

A batch of any number of sources becomes at most one packet per partition of `propagation`: a record is atomic in the
log, so a receiver sees all of a block or nothing of it, and a failed delivery can leave no gap behind.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import TopologyError
from stream_tgat.message_passing.progress import NOTHING
from stream_tgat.message_passing.refused import Refused
from stream_tgat.message_passing.watermarks import NodesClock, SourceClock
from stream_tgat.topology import Topology
from stream_tgat.wire import (
    DeadLetter,
    DecodedInteraction,
    DecodedNode,
    Headers,
    InteractionReader,
    NodeReader,
    PassedOver,
    Punctuation,
    Several,
)
from stream_tgat.wire.batches import BatchDecoder
from stream_tgat.wire.origins import Origin, pack_origins
from stream_tgat.wire.packets import (
    UNKNOWN,
    Block,
    Entries,
    PacketLayout,
    Source,
    SourceTopic,
    encode_blocks,
    encode_packet,
    partitions_of,
)
from stream_tgat.wire.traces import Trace, encode_traces, trace_of

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
class IngestedSource:
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
    newest: largest time of an interaction, minus infinity without
    passed_over: records that the topology does not want
    traces: of the records that say which they belong to, as `encode_traces` writes them
    left: records that were not taken, of those that hold several interactions; they come first in the next cycle
    """

    packets: list[bytes | None]
    refused: list[Refused]
    ends: dict[Source, int]
    watermarks: dict[Source, float]
    newest: float = NOTHING
    interactions: int = 0
    nodes: int = 0
    passed_over: int = 0
    traces: bytes = b""
    left: Mapping[Source, Sequence[SourceRecord]] = field(default_factory=dict)


class _Timed(NamedTuple):
    """What a record says of time; position: of its interaction among those of the cycle, or of the next."""

    position: int
    time: float
    is_punctuation: bool
    written: float


@dataclass
class _Interactions:
    """Good interactions of one cycle, as parallel lists in order of source and offset.

    times: what the records of each source's partition say of time   passed_over: records that are not wanted
    """

    partition: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    id: list[bytes] = field(default_factory=list)
    user: list[bytes] = field(default_factory=list)
    item: list[bytes] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    record: list[SourceRecord] = field(default_factory=list)
    times: dict[int, list[_Timed]] = field(default_factory=dict)
    passed_over: int = 0

    def punctuate(self, partition: int, watermark: float, written: float) -> None:
        """A punctuation of a source's partition."""
        self.times.setdefault(partition, []).append(_Timed(len(self.id), watermark, True, written))

    def add(self, partition: int, record: SourceRecord, found: DecodedInteraction, written: float) -> None:
        """An interaction in a record of a source's partition."""
        self.times.setdefault(partition, []).append(_Timed(len(self.id), found.timestamp, False, written))
        self.partition.append(partition)
        self.offset.append(record.offset)
        self.id.append(found.id)
        self.user.append(found.user)
        self.item.append(found.item)
        self.time.append(found.timestamp)
        self.fields.append(found.fields)
        self.record.append(record)


class Packer:
    """Decodes, encodes features, and sorts by owner."""

    def __init__(self, topology: Topology, layout: PacketLayout, partitions: int, max_packet_bytes: int) -> None:
        self._layout = layout
        self._partitions = partitions
        self._reader = InteractionReader(topology)
        self._interactions = BatchDecoder(topology)
        self._nodes = NodeReader(topology)
        self._encoder = topology.encoder
        # All half-edges of a cycle may have one owner, and still have to fit into one packet.
        self.max_interactions = max(1, (max_packet_bytes - _OVERHEAD_BYTES) // (2 * layout.half_edge.itemsize))
        self.max_nodes = max(1, (max_packet_bytes - _OVERHEAD_BYTES) // layout.feature.itemsize)
        section = topology.input.interactions
        if section.each and section.most > self.max_interactions:
            raise TopologyError(
                f"input.interactions.most: {section.most} interactions of one record are more than a message between "
                f"workers holds, which is {self.max_interactions} of this width; set most to that"
            )

    def lacks(self, batch: Mapping[Source, Sequence[SourceRecord]]) -> bool:
        """Whether packing these records would ask a schema registry first."""
        return any(self._reader_of(source).lacks(records) for source, records in batch.items())

    def fetch(self, batch: Mapping[Source, Sequence[SourceRecord]]) -> None:
        """Have all at hand that these records need; UnreachableRegistryError while the schema registry is away."""
        for source, records in batch.items():
            self._reader_of(source).fetch(records)

    def _reader_of(self, source: Source) -> InteractionReader | NodeReader:
        return self._reader if source.topic is SourceTopic.INTERACTIONS else self._nodes

    def pack(
        self,
        batch: Mapping[Source, Sequence[SourceRecord]],
        sources: Mapping[Source, IngestedSource],
        caught_up: Mapping[Source, float],
        now: float,
        idle: Collection[Source] = (),
    ) -> Packed:
        """One cycle: records of some sources, in offset order, and the clock at the end of those that are caught up.

        sources: where each source is; clocks move on here, positions only once the packets are acknowledged.
        caught_up: sources whose end is reached with this batch, and the unix time up to which that is known.
        now: unix time at which the records were read.   idle: sources without records that hold nobody back any more.
        Where records hold several interactions, those beyond the room of a packet are left, and so is their end.
        """
        refused: list[Refused] = []
        good = _Interactions()
        left: Mapping[Source, Sequence[SourceRecord]] = {}
        order = sorted({*batch, *caught_up, *idle})
        if self._reader.contract is None:
            left = self._read_interactions(batch, now, good, refused)
            batch = {source: each[: len(each) - len(left.get(source, ()))] for source, each in batch.items()}
            caught_up = {source: at for source, at in caught_up.items() if source not in left}
        else:
            self._decode_interactions(order, batch, now, good, refused)
        features = self._decode_nodes(order, batch, good, refused)
        edge, errors = self._encoder.encode(good.fields)
        wrong = self._refuse(good, errors, refused)
        self._advance(order, sources, ~wrong, good.times, caught_up)
        written = {source: _written(records, now) for source, records in batch.items() if records}
        blocks = self._blocks(order, batch, sources, idle, written)
        kept = np.flatnonzero(~wrong)
        newest = max((good.time[at] for at in kept.tolist()), default=NOTHING)
        packets: list[bytes | None] = [None] * self._partitions
        if blocks:
            encoded = encode_blocks(blocks)
            packets = [
                encode_packet(self._layout, encoded, half_edges, of_nodes, newest=newest)
                for half_edges, of_nodes in zip(
                    self._half_edges(good, edge, kept), self._features(features), strict=True
                )
            ]
        return Packed(
            packets=packets,
            refused=refused,
            ends={source: batch[source][-1].offset + 1 for source in batch if batch[source]},
            watermarks={source: sources[source].clock.watermark for source in order},
            newest=newest,
            interactions=len(kept),
            nodes=len(features),
            passed_over=good.passed_over,
            traces=_traces(good, kept),
            left=left,
        )

    def _refuse(self, good: _Interactions, errors: Sequence[str | None], refused: list[Refused]) -> NDArray[np.bool_]:
        """Which interactions are wrong, bool [n]: all of a record in which one is, and it is refused once."""
        wrong = np.array([error is not None for error in errors], np.bool_)
        reasons: dict[int, tuple[SourceRecord, str]] = {}
        for at in np.flatnonzero(wrong).tolist():
            reasons.setdefault(id(good.record[at]), (good.record[at], self._reader.told(str(errors[at]))))
        if reasons and self._reader.contract is None:
            wrong = np.array([id(record) in reasons for record in good.record], np.bool_)
        refused += [Refused.of(record, reason) for record, reason in reasons.values()]
        return wrong

    def _decode_interactions(
        self,
        order: Sequence[Source],
        batch: Mapping[Source, Sequence[SourceRecord]],
        now: float,
        good: _Interactions,
        refused: list[Refused],
    ) -> None:
        """Records that are as the contract has them."""
        records: list[SourceRecord] = []
        partitions: list[int] = []
        for source in order:
            if source.topic is SourceTopic.INTERACTIONS and source in batch:
                records += batch[source]
                partitions += [source.partition] * len(batch[source])
        for record, partition, decoded in zip(records, partitions, self._interactions.decode(records), strict=True):
            # Where producers say when a record was written, that may lie in the future, of which nothing is known.
            written = min(record.timestamp, now)
            if isinstance(decoded, DeadLetter):
                refused.append(Refused.of(record, decoded.reason))
            elif isinstance(decoded, Punctuation):
                good.punctuate(partition, decoded.watermark, written)
            else:
                good.add(partition, record, decoded, written)

    def _read_interactions(
        self, batch: Mapping[Source, Sequence[SourceRecord]], now: float, good: _Interactions, refused: list[Refused]
    ) -> dict[Source, Sequence[SourceRecord]]:
        """Records that the topology maps, each with any number of interactions; returns those without room.

        In the order of the batch, whose first are furthest behind and so have the room.
        """
        left: dict[Source, Sequence[SourceRecord]] = {}
        for source, records in batch.items():
            if source.topic is not SourceTopic.INTERACTIONS:
                continue
            for at, record in enumerate(records):
                found, written = self._reader.read(record, record.timestamp), min(record.timestamp, now)
                if isinstance(found, DeadLetter):
                    refused.append(Refused.of(record, found.reason))
                elif isinstance(found, PassedOver):
                    good.passed_over += 1
                elif isinstance(found, Punctuation):
                    good.punctuate(source.partition, found.watermark, written)
                else:
                    several = found.interactions if isinstance(found, Several) else (found,)
                    if good.id and len(good.id) + len(several) > self.max_interactions:
                        left[source] = records[at:]
                        break
                    for each in several:
                        good.add(source.partition, record, each, written)
        return left

    def _decode_nodes(
        self,
        order: Sequence[Source],
        batch: Mapping[Source, Sequence[SourceRecord]],
        good: _Interactions,
        refused: list[Refused],
    ) -> list[tuple[Origin, DecodedNode]]:
        features = []
        for source in order:
            for record in batch.get(source, ()) if source.topic is SourceTopic.NODES else ():
                decoded = self._nodes.read(record, record.timestamp)
                if isinstance(decoded, DeadLetter):
                    refused.append(Refused.of(record, decoded.reason))
                elif isinstance(decoded, PassedOver):
                    good.passed_over += 1
                else:
                    features.append((Origin(source.partition, record.offset), decoded))
        return features

    def _half_edges(self, good: _Interactions, edge: NDArray[np.float32], kept: NDArray[np.intp]) -> Iterator[Entries]:
        """Both halves of the interactions at `kept`, each for the owner of its node: in order of time for each."""
        time = np.array(good.time, np.float64)[kept]
        owner = np.stack([self._owners(good.user)[kept], self._owners(good.item)[kept]], 1).ravel()
        # Of equal times the first one read comes first, its user before its item.
        order = np.lexsort((np.repeat(time, 2), owner))
        which, side = order >> 1, order & 1
        entries = np.empty(len(order), self._layout.half_edge)
        key = f"S{self._layout.id_bytes}"
        ends = np.array([good.user, good.item], key)[:, kept]
        entries["origin"] = pack_origins(np.array(good.partition, np.int64), np.array(good.offset, np.int64))[kept][
            which
        ]
        entries["time"] = time[which]
        entries["node"] = ends[side, which]
        entries["peer"] = ends[1 - side, which]
        entries["interaction"] = np.array(good.id, key)[kept][which]
        entries["edge"] = edge[kept[which]]
        entries["side"] = side
        return _by_owner(entries, owner, self._partitions)

    def _features(self, features: Sequence[tuple[Origin, DecodedNode]]) -> Iterator[Entries]:
        """The features of nodes, each for the owner of its node: in order of source and offset."""
        owner = self._owners([decoded.node for _, decoded in features])
        entries = np.empty(len(features), self._layout.feature)
        if features:
            partitions, offsets = np.array([origin for origin, _ in features], np.int64).T
            entries["origin"] = pack_origins(partitions, offsets)
            entries["node"] = [decoded.node for _, decoded in features]
            entries["vector"] = [decoded.features for _, decoded in features]
        return _by_owner(entries[np.argsort(owner, kind="stable")], owner, self._partitions)

    def _advance(
        self,
        order: Sequence[Source],
        sources: Mapping[Source, IngestedSource],
        keep: NDArray[np.bool_],
        times: Mapping[int, list[_Timed]],
        caught_up: Mapping[Source, float],
    ) -> None:
        """Move the clocks on."""
        for source in order:
            clock = sources[source].clock
            if isinstance(clock, NodesClock):
                if source in caught_up:
                    clock.caught_up()
                continue
            for said in times.get(source.partition, ()):
                if said.is_punctuation:
                    clock.punctuate(said.time)
                elif keep[said.position]:
                    # A time that went to the dead letters must not move the watermark.
                    clock.read(said.time, said.written)
            if source in caught_up:
                clock.caught_up(caught_up[source])

    def _blocks(
        self,
        order: Sequence[Source],
        batch: Mapping[Source, Sequence[SourceRecord]],
        sources: Mapping[Source, IngestedSource],
        idle: Collection[Source],
        written: Mapping[Source, tuple[float, float]],
    ) -> list[Block]:
        """Those of all sources that have something new to say, which every owner is told."""
        blocks = []
        for source in order:
            state, records, is_idle = sources[source], batch.get(source), source in idle
            if records or state.clock.watermark > state.announced or is_idle != state.is_idle:
                end = records[-1].offset + 1 if records else state.position
                blocks.append(
                    Block(source, state.position, end, state.clock.watermark, is_idle, written.get(source, UNKNOWN))
                )
        return blocks

    def _owners(self, nodes: Sequence[bytes]) -> NDArray[np.int64]:
        return partitions_of(nodes, self._partitions)


def _traces(good: _Interactions, kept: NDArray[np.intp]) -> bytes:
    """Traces of the interactions at `kept` whose records have one."""
    found: dict[tuple[int, int], Trace] = {}
    for at in kept.tolist():
        headers = good.record[at].headers
        if headers and (trace := trace_of(headers)) is not None:
            found[good.partition[at], good.offset[at]] = trace
    if not found:
        return b""
    origins = pack_origins(*np.array(list(found), np.int64).T)
    return encode_traces(zip(origins.tolist(), found.values(), strict=True))


def _written(records: Sequence[SourceRecord], now: float) -> tuple[float, float]:
    """When the first and the last of these were written; where producers say so that may lie in the future."""
    return min(records[0].timestamp, now), min(records[-1].timestamp, now)


def _by_owner(entries: Entries, owner: NDArray[np.int64], count: int) -> Iterator[Entries]:
    """Entries in order of their owners, cut into those of each of `count`. owner: of each, in any order"""
    end = 0
    for size in np.bincount(owner, minlength=count).tolist():
        yield entries[end : end + size]
        end += size
