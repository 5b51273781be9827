"""The binary records of `propagation`: what ingest and propagate tell the owners of nodes.

One record packs many things, because a record costs a broker and two event loops the same whether it carries one
half-edge or a thousand: *blocks*, each a contiguous range of one source's offsets, then the half-edges and the node
features of all blocks together, and *peer embeddings*, the messages of one layer. All entries are fixed-width, so both
ends work on whole arrays; and the blocks of a cycle of ingest are the same bytes for all owners, who have to read them
only once. It knows neither Kafka nor the engine.
"""

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import WireError

#: Structured arrays; their fields are those of the dtypes of `PacketLayout`.
Entries = NDArray[np.void]

#: Of a block without records: when they were written.
UNKNOWN: Final = (math.nan, math.nan)

#: Largest packet: with its frame it must stay below the 1,048,588 bytes that brokers take by default.
MAX_PACKET_BYTES: Final = 900_000

#: A topic has fewer partitions. Those of the second topic of a kind are numbered from here on, and so forth.
MOST_PARTITIONS: Final = 1 << 14

#: Raise it with any change of the bytes of a packet, and say in docs/upgrading.md what to do.
PACKET_FORMAT: Final = 3
_MAGIC: Final = b"TGP%d" % PACKET_FORMAT
_HEADER = struct.Struct("<4sIIIIId")
_BLOCK = struct.Struct("<B?xxIqqddd")
_PEER_EMBEDDINGS = struct.Struct("<BxxxI")


class SourceTopic(IntEnum):
    """The topics that ingest reads, as written in packets and under the reserved key."""

    INTERACTIONS = 0
    NODES = 1


class Source(NamedTuple):
    """One partition of a topic that ingest reads: the unit of offsets and of watermarks.

    partition: its number among those of all topics of this kind, see `MOST_PARTITIONS`
    """

    topic: SourceTopic
    partition: int

    @property
    def number(self) -> int:
        """Which of the topics of this kind it is of, in the order in which the topology lists them."""
        return self.partition // MOST_PARTITIONS

    @property
    def partition_of_topic(self) -> int:
        """Its number in its own topic."""
        return self.partition % MOST_PARTITIONS

    @property
    def kind(self) -> str:
        """What its topic is called in messages and metrics: interactions, and interactions.2 if it is the second."""
        return f"{self.topic.name.lower()}{f'.{self.number + 1}' if self.number else ''}"

    def __str__(self) -> str:
        """What it is called, as in interactions/3."""
        return f"{self.kind}/{self.partition_of_topic}"


@dataclass(frozen=True)
class PacketLayout:
    """Widths of everything in a packet.

    id_bytes: width of node keys and interaction ids.   edge_width: E.   feature_width: own features of a node, or 0.
    peer_embedding_widths: width of the peer embedding of each layer 0 … L-1; 0 where a layer sends none.
    meaning: a number that differs where the topology gives the same widths another meaning
    """

    id_bytes: int
    edge_width: int
    feature_width: int
    peer_embedding_widths: tuple[int, ...]
    meaning: int = 0
    half_edge: np.dtype[np.void] = field(init=False)
    feature: np.dtype[np.void] = field(init=False)
    peer_embedding: tuple[np.dtype[np.void], ...] = field(init=False)
    fingerprint: int = field(init=False)

    def __post_init__(self) -> None:
        key = f"S{self.id_bytes}"
        # Whose it is, and which interaction: with time and side, what makes it one.
        identity: list[tuple[Any, ...]] = [("node", key), ("interaction", key), ("peer", key)]
        half_edge: list[tuple[Any, ...]] = [
            ("origin", "<i8"),
            ("time", "<f8"),
            *identity,
            ("edge", "<f4", (self.edge_width,)),
            ("side", "u1"),
        ]
        feature: list[tuple[Any, ...]] = [("origin", "<i8"), ("node", key), ("vector", "<f4", (self.feature_width,))]
        peer_embedding = tuple(
            np.dtype([("version", "<i8"), ("time", "<f8"), *identity, ("vector", "<f4", (width,)), ("side", "u1")])
            for width in self.peer_embedding_widths
        )
        shape = f"{self.id_bytes}/{self.edge_width}/{self.feature_width}/{self.peer_embedding_widths}/{self.meaning}"
        object.__setattr__(self, "half_edge", np.dtype(half_edge))
        object.__setattr__(self, "feature", np.dtype(feature))
        object.__setattr__(self, "peer_embedding", peer_embedding)
        object.__setattr__(self, "fingerprint", zlib.crc32(shape.encode()))


class Block(NamedTuple):
    """Offsets [first, end) of a source were read, often none: all that they hold for an owner is in the same packet.

    watermark, is_idle: see `SourceProgress`
    written: when the first and the last record of the range were written, unix seconds; not a number without records
    """

    source: Source
    first: int
    end: int
    watermark: float
    is_idle: bool = False
    written: tuple[float, float] = UNKNOWN


@dataclass(frozen=True)
class PeerEmbeddingSection:
    """Messages of one layer; entries of `PacketLayout.peer_embedding[layer]`."""

    layer: int
    entries: Entries


@dataclass(frozen=True)
class Packet:
    """One record of `propagation`, decoded.

    blocks: as `encode_blocks` writes them   newest: largest time of an event in them, for whichever owner it is
    half_edges: of `PacketLayout.half_edge`, in order of time   features: of `PacketLayout.feature`, in order of source
    and offset. Their origin says the record of which source they come from, see `pack_origins`.
    """

    blocks: bytes
    newest: float
    half_edges: Entries
    features: Entries
    peer_embeddings: tuple[PeerEmbeddingSection, ...]


def partitions_of(keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """The partition of each key, int64 [n]: CRC-32 of its bytes, so that any client can compute it."""
    crc32 = zlib.crc32
    return np.fromiter((crc32(key) for key in keys), np.int64, len(keys)) % partitions


def encode_blocks(blocks: Iterable[Block]) -> bytes:
    """Blocks as they stand in a packet."""
    return b"".join(
        _BLOCK.pack(source.topic, is_idle, source.partition, first, end, watermark, *written)
        for source, first, end, watermark, is_idle, written in blocks
    )


def decode_blocks(blocks: bytes) -> list[Block]:
    """The inverse of `encode_blocks`; WireError for a topic that ingest does not read."""
    try:
        return [
            Block(Source(SourceTopic(topic), partition), first, end, watermark, is_idle, (begun, ended))
            for topic, is_idle, partition, first, end, watermark, begun, ended in _BLOCK.iter_unpack(blocks)
        ]
    except ValueError as problem:
        raise WireError(f"damaged: {problem}") from None


def encode_packet(
    layout: PacketLayout,
    blocks: bytes = b"",
    half_edges: Entries | None = None,
    features: Entries | None = None,
    peer_embeddings: Sequence[PeerEmbeddingSection] = (),
    newest: float = -math.inf,
) -> bytes:
    """One record that carries these, see `Packet`."""
    parts = [
        _HEADER.pack(
            _MAGIC,
            layout.fingerprint,
            len(blocks) // _BLOCK.size,
            0 if half_edges is None else len(half_edges),
            0 if features is None else len(features),
            len(peer_embeddings),
            newest,
        ),
        blocks,
    ]
    parts += [entries.tobytes() for entries in (half_edges, features) if entries is not None]
    for peer_embedding in peer_embeddings:
        parts.append(_PEER_EMBEDDINGS.pack(peer_embedding.layer, len(peer_embedding.entries)))
        parts.append(peer_embedding.entries.tobytes())
    return b"".join(parts)


def decode_packet(layout: PacketLayout, record: bytes) -> Packet:
    """The inverse of `encode_packet`; entries are read-only views of the record.

    Raises WireError for a record of another layout: it belongs to another deployment, so nothing can be done with it;
    for one of another version; and for one that is cut off or damaged.
    """
    if record[:3] == _MAGIC[:3] and record[3:4].isdigit() and record[:4] != _MAGIC:
        raise WireError(
            f"a packet of format {record[3:4].decode()}, and this version of stream-tgat reads format {PACKET_FORMAT}: "
            "two versions run in one deployment and do not understand each other; run only one of them, or give the "
            "new one another kafka.topic_prefix and replay the log"
        )
    if len(record) < _HEADER.size or record[:4] != _MAGIC:
        raise WireError("not a record that ingest or propagate writes")
    _, fingerprint, blocks, half_edges, features, peer_embeddings, newest = _HEADER.unpack_from(record)
    if fingerprint != layout.fingerprint:
        raise WireError(
            "written under a topology that gives its bytes another meaning (ids, features, node features or layers); "
            "to change it, use another kafka.topic_prefix and replay the log"
        )
    try:
        return _sections(layout, record, (blocks, half_edges, features, peer_embeddings), newest)
    except (struct.error, ValueError, IndexError) as problem:
        raise WireError(f"cut off or damaged: {problem}") from None


def _sections(layout: PacketLayout, record: bytes, counts: tuple[int, int, int, int], newest: float) -> Packet:
    blocks, half_edges, features, peer_embeddings = counts
    at = _HEADER.size + blocks * _BLOCK.size
    if at > len(record):
        raise ValueError("it ends among its blocks")
    found_blocks = record[_HEADER.size : at]
    found_half_edges = np.frombuffer(record, layout.half_edge, half_edges, at)
    at += found_half_edges.nbytes
    found_features = np.frombuffer(record, layout.feature, features, at)
    at += found_features.nbytes
    found_peer_embeddings = []
    for _ in range(peer_embeddings):
        layer, count = _PEER_EMBEDDINGS.unpack_from(record, at)
        at += _PEER_EMBEDDINGS.size
        entries = np.frombuffer(record, layout.peer_embedding[layer], count, at)
        at += entries.nbytes
        found_peer_embeddings.append(PeerEmbeddingSection(layer, entries))
    if at != len(record):
        raise ValueError(f"{len(record) - at} bytes too many")
    return Packet(found_blocks, newest, found_half_edges, found_features, tuple(found_peer_embeddings))
