"""One partition of `propagation`, strictly in the order of its offsets: packets in, rows and memos out.

Receive is store: a half-edge becomes a row at once, a memo enters its row. What has been received is kept under the
reserved key, which is committed together with the rows, so that every record counts exactly once however often it is
read. It knows the engine, and no Kafka client.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.agents.commits import changes_per_byte
from stream_tgat.agents.origins import pack_origins
from stream_tgat.agents.packets import Entries, PacketLayout, decode_packet
from stream_tgat.agents.progress import NOTHING, RESERVED_KEY, Progress, Source, SourceTopic
from stream_tgat.engine import Engine, HalfEdges, Memos
from stream_tgat.errors import LostDataError, WireError
from stream_tgat.storage.stores import Store

#: Bytes of packets that enter the engine at once, at most, between two looks at the size of the next commit.
CHUNK_BYTES: Final = 1_000_000


class PropagationRecord(Protocol):
    """What is read of a record of `propagation`; Faust's messages have it."""

    offset: int
    value: bytes | None


@dataclass(slots=True)
class Received:
    """Counts of what one call of `receive` took in. records: how many of those given were taken, from the first."""

    records: int = 0
    half_edges: int = 0
    messages: int = 0
    duplicates: int = 0


class Receiver:
    """The received part of one partition: its progress, and the engine's rows in it.

    `progress` and the engine's memory run ahead of the store until the partition is committed; `close` forgets both.
    """

    def __init__(self, engine: Engine, layout: PacketLayout, topic: str, partition: int, store: Store) -> None:
        self.partition = partition
        self._engine = engine
        self._layout = layout
        self._where = f"{topic}/{partition}"
        self._changes_per_byte = changes_per_byte(layout, engine.config.candidates)
        (value,) = store.get_many([RESERVED_KEY])
        self.progress = Progress(layout.fingerprint) if value is None else Progress.decode(value)
        if self.progress.layout != layout.fingerprint:
            raise LostDataError(
                f"{self._where}: the state of this partition was written with other widths (ids, edge features, node "
                "features, layers or prediction heads) than the serving release has. Set the topology back, or use "
                "another kafka.topic_prefix and replay the log."
            )
        engine.open(partition, store)

    def close(self) -> None:
        """Forget what is in memory."""
        self._engine.drop(self.partition)

    def receive(self, records: Sequence[PropagationRecord], max_changes_bytes: int) -> Received:
        """Take in records, in order, as long as the next commit will not hold more than `max_changes_bytes` of them.

        The first is taken in any case: `largest_packet` says how large it may be.
        """
        received = Received()
        while received.records < len(records):
            room = max_changes_bytes - self._engine.changes_bytes(self.partition)
            fitting = min(CHUNK_BYTES, room / self._changes_per_byte)
            chunk, size = 0, 0
            for record in records[received.records :]:
                size += len(record.value or b"")
                if size > fitting and received.records + chunk:
                    break
                chunk += 1
            if not chunk:
                break
            self._receive(records[received.records : received.records + chunk], received)
            received.records += chunk
        return received

    def _receive(self, records: Iterable[PropagationRecord], received: Received) -> None:
        half_edges: list[Entries] = []
        late: list[NDArray[np.bool_]] = []
        origins: list[NDArray[np.int64]] = []
        features: list[Entries] = []
        memos: list[list[Entries]] = [[] for _ in self._layout.memo]
        for record in records:
            if not self._follows(record.offset):
                continue
            packet = self._decode(record)
            for block in packet.blocks:
                fresh, promised = self.progress.receive(
                    block.source, block.first, block.end, block.watermark, block.promised
                )
                if not len(block.entries):
                    continue
                entries = block.entries
                if fresh > block.first:
                    entries = entries[entries["offset"] >= fresh]
                    received.duplicates += len(block.entries) - len(entries)
                if block.source.topic is SourceTopic.NODES:
                    features.append(entries)
                else:
                    half_edges.append(entries)
                    late.append(entries["late"] | (entries["time"] < promised))
                    origins.append(pack_origins(block.source.partition, entries["offset"]))
            for section in packet.memos:
                memos[section.layer].append(section.entries)
            self.progress.offset = record.offset
        self._enter(half_edges, late, origins, features, memos, received)

    def _follows(self, offset: int) -> bool:
        """Whether a record is the next one; False for one that is in the state already."""
        wanted = self.progress.offset + 1
        if offset > wanted:
            raise LostDataError(
                f"{self._where}: record {wanted} comes next, but {offset} was read: the records between are gone, and "
                "with them interactions that no state holds. Use another kafka.topic_prefix and replay the log."
            )
        return offset == wanted

    def _decode(self, record: PropagationRecord) -> Any:
        try:
            return decode_packet(self._layout, record.value or b"")
        except WireError as problem:
            raise WireError(f"{self._where}/{record.offset}: {problem}") from problem

    def _enter(
        self,
        half_edges: list[Entries],
        late: list[NDArray[np.bool_]],
        origins: list[NDArray[np.int64]],
        features: list[Entries],
        memos: list[list[Entries]],
        received: Received,
    ) -> None:
        if features:
            self._engine.set_features(self.partition, _column(features, "node"), _column(features, "vector"))
        if half_edges:
            rows = HalfEdges(
                node=_column(half_edges, "node"),
                peer=_column(half_edges, "peer"),
                interaction=_column(half_edges, "interaction"),
                side=_column(half_edges, "side"),
                time=_column(half_edges, "time"),
                late=np.concatenate(late),
                edge=_column(half_edges, "edge"),
                origin=np.concatenate(origins),
            )
            self._engine.append(self.partition, rows)
            received.half_edges += len(rows)
        for layer, entries in enumerate(memos):
            if entries:
                filled = Memos(
                    node=_column(entries, "node"),
                    interaction=_column(entries, "interaction"),
                    side=_column(entries, "side"),
                    time=_column(entries, "time"),
                    version=_column(entries, "version"),
                    vectors=_column(entries, "vector"),
                    layer=layer,
                )
                self._engine.fill(self.partition, filled)
                received.messages += len(filled)

    def watermark(self, expected: Iterable[Source]) -> float:
        """The time up to which this partition has received everything; minus infinity while no source is expected."""
        expected = tuple(expected)
        return self.progress.watermark(expected) if expected else NOTHING


def _column(parts: Sequence[Entries], name: str) -> NDArray[Any]:
    """One field of all entries as one contiguous array of its own."""
    return np.concatenate([part[name] for part in parts])
