"""One partition of `propagation`, strictly in the order of its offsets: packets in, rows and peer embeddings out.

Receive is store: a half-edge becomes a row at once, a peer embedding enters its row. What has been received is kept
under the reserved key, which is committed together with the rows, so that every record counts exactly once however
often it is read. It knows the engine, and no Kafka client.
"""

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import Engine, HalfEdges, PeerEmbeddings
from stream_tgat.errors import FormatError, LostDataError, WireError
from stream_tgat.message_passing.commit_sizes import changes_per_byte
from stream_tgat.message_passing.own_writes import OwnWrite
from stream_tgat.message_passing.progress import NOTHING, RESERVED_KEY, PartitionProgress
from stream_tgat.message_passing.record_times import Written
from stream_tgat.message_passing.state_identity import IDENTITY_KEY, Identity
from stream_tgat.message_passing.traces import Traces
from stream_tgat.rocks import Change
from stream_tgat.storage.stores import Store
from stream_tgat.wire.formats import Headers
from stream_tgat.wire.origins import source_offsets, source_partitions
from stream_tgat.wire.packets import Entries, Packet, PacketLayout, Source, SourceTopic, decode_packet

if TYPE_CHECKING:
    from stream_tgat.nn.model import ModelConfig

#: Bytes of packets that enter the engine at once, at most, between two looks at the size of the next commit.
CHUNK_BYTES: Final = 1_000_000

#: Entries of a part up to which joining costs more for the part than for its bytes.
_SMALL: Final = 32


class PropagationRecord(Protocol):
    """What is read of a record of `propagation`; Faust's messages have it."""

    offset: int
    value: bytes | None
    headers: Headers | None


@dataclass(slots=True)
class ReceivedCounts:
    """Counts of what was taken in of a partition.

    records: how many of those given were taken, from the first   duplicates: half-edges that were sent again
    repeats: interactions that the node has already, of another record   differing: of these, with other features
    behind: half-edges that came after a later one of their node had been computed, by partition of `interactions`
    """

    records: int = 0
    half_edges: int = 0
    messages: int = 0
    duplicates: int = 0
    repeats: int = 0
    differing: int = 0
    behind: Counter[int] = field(default_factory=Counter)

    def add(self, other: "ReceivedCounts") -> None:
        """Count more."""
        self.records += other.records
        self.half_edges += other.half_edges
        self.messages += other.messages
        self.duplicates += other.duplicates
        self.repeats += other.repeats
        self.differing += other.differing
        self.behind += other.behind


@dataclass(slots=True)
class _Taken:
    """What records of one partition hold that is new, for the engine.

    half_edges: those of one record each, in order of time   passed: the partition's watermark before each record
    """

    partition: int
    peer_embeddings: list[list[Entries]]
    features: list[Entries] = field(default_factory=list)
    half_edges: list[Entries] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)
    received: ReceivedCounts = field(default_factory=ReceivedCounts)


class Receiver:
    """The received part of one partition: its progress, and the engine's rows in it.

    `progress` and the engine's memory run ahead of the store until the partition is committed; `close` forgets both.
    """

    def __init__(
        self, engine: Engine, layout: PacketLayout, topic: str, partition: int, store: Store, identity: Identity
    ) -> None:
        """identity: of the deployment as it is now.

        Raises FormatError if another version wrote the state in the store, LostDataError if it rests on something else.
        """
        self.partition = partition
        self._engine = engine
        self._layout = layout
        self._where = f"{topic}/{partition}"
        config = engine.config
        self._changes_per_byte = changes_per_byte(layout, config.candidates, config.head_names, config.decay_s)
        value, rests_on = store.get_many([RESERVED_KEY, IDENTITY_KEY])
        form = _form_of_state(layout, config)
        self.progress = PartitionProgress(form) if value is None else self._decoded(value)
        if rests_on is not None:
            identity.check(Identity.decode(rests_on), self._where)
        self._identity = None if rests_on == identity.encode() else identity.encode()
        if self.progress.layout != form:
            raise LostDataError(
                f"{self._where}: the state of this partition was written with other widths (ids, edge features, node "
                "features or layers) or other decay_days than the serving release has. Set the topology back, or use "
                "another kafka.topic_prefix and replay the log."
            )
        engine.open(partition, store)

    def _decoded(self, progress: bytes) -> PartitionProgress:
        try:
            return PartitionProgress.decode(progress)
        except FormatError as problem:
            raise FormatError(f"{self._where}: {problem}") from None

    def close(self) -> None:
        """Forget what is in memory."""
        self._engine.drop(self.partition)

    def account(self) -> list[Change]:
        """What the next commit holds beside the engine's rows, the reserved key last.

        What the state rests on is among it the first time, so that no progress is ever without it.
        """
        identity, self._identity = self._identity, None
        before: list[Change] = [] if identity is None else [(IDENTITY_KEY, identity)]
        return [*before, (RESERVED_KEY, self.progress.encode())]

    def fitting(self, records: Sequence[PropagationRecord], begin: int, max_changes_bytes: int) -> int:
        """How many records from `begin` on may enter at once, so that the next commit holds no more than that.

        The first of a commit is taken in any case: `largest_packet` says how large it may be.
        """
        there = self._engine.changes_bytes(self.partition)
        fitting = min(CHUNK_BYTES, (max_changes_bytes - there) / self._changes_per_byte)
        size = 0
        for at in range(begin, len(records)):
            size += len(records[at].value or b"")
            if size > fitting and (at or there):
                return at - begin
        return len(records) - begin

    def take(
        self,
        records: Iterable[PropagationRecord],
        expected: Collection[Source],
        written: Written | None,
        traces: Traces | None,
    ) -> _Taken:
        """Read records, in order: progress moves on, and what is new in them is for the engine.

        How far the partition had come before a record follows from the log alone, so after a crash the same half-edges
        have come behind.   expected: all sources of the deployment   written: is told when interactions were written
        traces: is told which they belong to
        """
        taken = _Taken(self.partition, [[] for _ in self._layout.peer_embedding])
        for record in records:
            taken.received.records += 1
            if self.knows(record):
                continue
            packet = self._decode(record)
            if packet.blocks:
                self._take_blocks(packet, taken, expected)
                if written is not None:
                    written.hear(packet.blocks)
                if traces is not None and record.headers:
                    traces.hear(record.headers)
            for section in packet.peer_embeddings:
                taken.peer_embeddings[section.layer].append(section.entries)
            self.progress.offset = record.offset
        taken.received.half_edges = sum(map(len, taken.half_edges))
        taken.received.messages = sum(len(entries) for layer in taken.peer_embeddings for entries in layer)
        return taken

    def knows(self, record: PropagationRecord) -> bool:
        """Whether all that the next record holds has been received; if so, progress moves on behind it."""
        if not self._follows(record.offset):
            return True
        if isinstance(record, OwnWrite) and record.is_known:
            self.progress.offset = record.offset
            return True
        return False

    def _take_blocks(self, packet: Packet, taken: _Taken, expected: Collection[Source]) -> None:
        passed, again = self.progress.passed, self.progress.receive(packet.blocks, packet.newest)
        half_edges, features = packet.half_edges, packet.features
        if again:
            count = len(half_edges)
            half_edges = _new(half_edges, SourceTopic.INTERACTIONS, again)
            features = _new(features, SourceTopic.NODES, again)
            taken.received.duplicates += count - len(half_edges)
        if len(half_edges):
            # Nothing can be computed between those of one record, so none of them comes behind another.
            taken.half_edges.append(half_edges)
            taken.passed.append(passed)
        if len(features):
            taken.features.append(features)
        self.progress.advance(expected)

    def _follows(self, offset: int) -> bool:
        """Whether a record is the next one; False for one that is in the state already."""
        wanted = self.progress.offset + 1
        if offset > wanted:
            raise LostDataError(
                f"{self._where}: record {wanted} comes next, but {offset} was read: the records between are gone, and "
                "with them interactions that no state holds. Use another kafka.topic_prefix and replay the log."
            )
        return offset == wanted

    def _decode(self, record: PropagationRecord) -> Packet:
        try:
            return decode_packet(self._layout, record.value or b"")
        except WireError as problem:
            raise WireError(f"{self._where}/{record.offset}: {problem}") from problem

    def watermark(self, expected: Collection[Source]) -> float:
        """The time up to which this partition has received everything; minus infinity while no source is expected."""
        return self.progress.advance(expected) if expected else NOTHING


def receive(
    engine: Engine,
    waiting: Sequence[tuple[Receiver, Sequence[PropagationRecord]]],
    max_changes_bytes: int,
    expected: Collection[Source],
    written: Written | None = None,
    traces: Traces | None = None,
) -> dict[int, ReceivedCounts]:
    """Take in the records of several partitions, each in order, until all are taken or the next commit is full.

    max_changes_bytes: as much of them may the next commit of a partition hold
    expected: all sources of the deployment   written, traces: are told when interactions were written, and which trace
    they belong to
    Returns what was taken of each partition: at least one record if there is any and nothing to commit before it.
    """
    received = {receiver.partition: ReceivedCounts() for receiver, _ in waiting}
    left = list(waiting)
    while left:
        taken = []
        for receiver, records in left:
            begin = received[receiver.partition].records
            count = receiver.fitting(records, begin, max_changes_bytes)
            if count:
                taken.append(receiver.take(records[begin : begin + count], expected, written, traces))
        if taken:
            _enter(engine, taken)
        for each in taken:
            received[each.partition].add(each.received)
        went_on = {each.partition for each in taken}
        left = [
            (receiver, records)
            for receiver, records in left
            if receiver.partition in went_on and received[receiver.partition].records < len(records)
        ]
    return received


def _enter(engine: Engine, taken: Sequence[_Taken]) -> None:
    """All that is new goes to the engine: one call for all partitions costs as much as one for each of them."""
    features = _Parts((each.partition, each.features) for each in taken)
    if features.entries:
        engine.set_features(features.owners, features.column("node"), features.column("vector"))
    half_edges = _Parts((each.partition, each.half_edges) for each in taken)
    if half_edges.entries:
        rows = HalfEdges(
            node=half_edges.column("node"),
            peer=half_edges.column("peer"),
            interaction=half_edges.column("interaction"),
            side=half_edges.column("side"),
            time=half_edges.column("time"),
            edge=half_edges.column("edge"),
            origin=half_edges.column("origin"),
            passed=np.repeat([passed for each in taken for passed in each.passed], half_edges.counts),
        )
        appended = engine.append(half_edges.owners, rows)
        # Both halves of an interaction repeat, perhaps with different workers; the user's is counted.
        repeats = ~appended.new & (rows.side == 0)
        if appended.behind.any() or repeats.any():
            for each in taken:
                mine = half_edges.owners == each.partition
                each.received.repeats += int(np.count_nonzero(repeats & mine))
                each.received.differing += int(np.count_nonzero(appended.differs & repeats & mine))
                of_source = source_partitions(rows.origin[appended.behind & mine])
                each.received.behind.update(of_source.tolist())
    for layer in range(len(taken[0].peer_embeddings)):
        peer_embeddings = _Parts((each.partition, each.peer_embeddings[layer]) for each in taken)
        if peer_embeddings.entries:
            filled = PeerEmbeddings(
                node=peer_embeddings.column("node"),
                peer=peer_embeddings.column("peer"),
                interaction=peer_embeddings.column("interaction"),
                side=peer_embeddings.column("side"),
                time=peer_embeddings.column("time"),
                version=peer_embeddings.column("version"),
                vectors=peer_embeddings.column("vector"),
                layer=layer,
            )
            engine.fill(peer_embeddings.owners, filled)


def _new(entries: Entries, topic: SourceTopic, again: Mapping[Source, int]) -> Entries:
    """The entries that are not in the state already. again: by source the lowest offset that is new"""
    partitions, offsets = source_partitions(entries["origin"]), source_offsets(entries["origin"])
    keep = np.ones(len(entries), np.bool_)
    for source, lowest in again.items():
        if source.topic is topic:
            keep &= (partitions != source.partition) | (offsets >= lowest)
    return entries[keep]


def _form_of_state(layout: PacketLayout, config: "ModelConfig") -> int:
    """What the bytes of a partition's state depend on, beside their format."""
    return zlib.crc32(repr(config.decay_s).encode(), layout.fingerprint) if config.decay_s else layout.fingerprint


class _Parts:
    """Entries of several partitions as columns.

    counts: of each part   owners: the partition of each entry, i4[n]
    """

    def __init__(self, parts: Iterable[tuple[int, Sequence[Entries]]]) -> None:
        found = [(partition, entries) for partition, several in parts for entries in several]
        self.entries = [entries for _, entries in found]
        self.counts = list(map(len, self.entries))
        self.owners = np.repeat(np.array([partition for partition, _ in found], np.int32), self.counts)
        # Many small parts are joined once for all columns; of large ones each column is copied once only.
        if len(self.entries) > 1 and len(self.owners) <= _SMALL * len(self.entries):
            self.entries = [np.concatenate(self.entries)]

    def column(self, name: str) -> NDArray[Any]:
        """One field of all entries as one contiguous array of its own."""
        return np.concatenate([entries[name] for entries in self.entries])
