"""One partition of `propagation`: every record counts once, in order, however often it is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from stream_tgat.engine import Appended, HalfEdges, PeerEmbeddings
from stream_tgat.errors import FormatError, LostDataError, WireError
from stream_tgat.message_passing.own_writes import OwnWrite
from stream_tgat.message_passing.progress import RESERVED_KEY, STATE_FORMAT, PartitionProgress
from stream_tgat.message_passing.receiving import ReceivedCounts, Receiver, receive
from stream_tgat.message_passing.state_identity import IDENTITY_KEY, Identity
from stream_tgat.nn.model import ModelConfig
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.wire.origins import pack_origins
from stream_tgat.wire.packets import (
    Block,
    Entries,
    PacketLayout,
    PeerEmbeddingSection,
    Source,
    SourceTopic,
    encode_blocks,
    encode_packet,
)
from tests.unit.wire.origins import unpack_origin

LAYOUT = PacketLayout(id_bytes=16, edge_width=2, feature_width=2, peer_embedding_widths=(0, 3))
IDENTITY = Identity(
    {"graph.bipartite": False, "features": []},
    {"interactions": UUID(int=1), "models": UUID(int=2)},
    "Do this, or replay the log",
)
A = Source(SourceTopic.INTERACTIONS, 0)
NODES = Source(SourceTopic.NODES, 0)


@dataclass
class SpyEngine:
    """Notes what an engine is told."""

    half_edges: list[HalfEdges] = field(default_factory=list)
    peer_embeddings: list[PeerEmbeddings] = field(default_factory=list)
    features: list[tuple[bytes, list[float]]] = field(default_factory=list)
    bytes_per_row: int = 0
    config: ModelConfig = field(default_factory=ModelConfig)
    opened: bool = False

    def open(self, partition: int, store: Any) -> None:
        self.opened = True

    def drop(self, partition: int) -> None:
        self.opened = False

    def append(self, partition: Any, half_edges: HalfEdges) -> Appended:
        self.half_edges.append(half_edges)
        is_new = np.ones(len(half_edges), np.bool_)
        return Appended(is_new, half_edges.time < half_edges.passed, ~is_new)

    def fill(self, partition: int, peer_embeddings: PeerEmbeddings) -> int:
        self.peer_embeddings.append(peer_embeddings)
        return len(peer_embeddings)

    def set_features(self, partition: int, node: Any, vectors: Any) -> None:
        self.features += list(zip(node.tolist(), vectors.tolist(), strict=True))

    def changes_bytes(self, partition: int) -> int:
        return self.bytes_per_row * sum(map(len, self.half_edges))

    def ids(self) -> list[bytes]:
        return [each for part in self.half_edges for each in part.interaction.tolist()]


@dataclass
class Read:
    offset: int
    value: bytes | None


#: A block, and the half-edges of it that an owner gets.
Told = tuple[Block, Entries]


def _block(
    first: int,
    end: int,
    *offsets: int,
    time: float | list[float] = 5.0,
    watermark: float = 1.0,
    source: Source = A,
    is_idle: bool = False,
) -> Told:
    entries = np.zeros(len(offsets), LAYOUT.half_edge)
    entries["origin"] = pack_origins(source.partition, np.array(offsets, np.int64))
    entries["time"] = time
    entries["node"], entries["peer"] = b"ua", b"ib"
    entries["interaction"] = [b"x%d" % offset for offset in offsets]
    entries["edge"] = 7.0
    return Block(source, first, end, watermark, is_idle), entries


def _record(offset: int, *told: Told, peer_embeddings: tuple[PeerEmbeddingSection, ...] = ()) -> Read:
    half_edges = np.concatenate([np.zeros(0, LAYOUT.half_edge), *(entries for _, entries in told)])
    return Read(
        offset, encode_packet(LAYOUT, encode_blocks(block for block, _ in told), half_edges, None, peer_embeddings)
    )


def _receiver(engine: SpyEngine, store: MemoryStore | None = None) -> Receiver:
    return Receiver(engine, LAYOUT, "propagation", 3, store or MemoryStore(), IDENTITY)  # type: ignore[arg-type]


def _receive(receiver: Receiver, records: Sequence[Read | OwnWrite], room: int) -> ReceivedCounts:
    return receive(receiver._engine, [(receiver, records)], room, [A])[receiver.partition]


def test_half_edges_peer_embeddings_and_features_reach_the_engine() -> None:
    engine = SpyEngine()
    receiver = _receiver(engine)
    peer_embedding = np.zeros(1, LAYOUT.peer_embedding[1])
    (
        peer_embedding["node"],
        peer_embedding["interaction"],
        peer_embedding["side"],
        peer_embedding["time"],
        peer_embedding["version"],
    ) = b"ua", b"x1", 1, 4.5, 9
    peer_embedding["peer"] = b"ib"
    peer_embedding["vector"] = [1, 2, 3]
    feature = np.zeros(1, LAYOUT.feature)
    feature["node"], feature["vector"] = b"ub", [3, 4]
    block, edges = _block(0, 2, 0, 1)
    blocks = encode_blocks([block, Block(NODES, 0, 1, math.inf)])
    first = Read(0, encode_packet(LAYOUT, blocks, edges, feature))
    received = _receive(
        receiver, [first, _record(1, peer_embeddings=(PeerEmbeddingSection(1, peer_embedding),))], 10**9
    )
    (rows,) = engine.half_edges
    assert (rows.node.tolist(), rows.peer.tolist(), rows.interaction.tolist()) == (
        [b"ua"] * 2,
        [b"ib"] * 2,
        [b"x0", b"x1"],
    )
    assert rows.edge.tolist() == [[7, 7], [7, 7]]
    assert rows.origin.tolist() == [0, 1]
    (peer_embeddings,) = engine.peer_embeddings
    assert (
        peer_embeddings.layer,
        peer_embeddings.side.tolist(),
        peer_embeddings.time.tolist(),
        peer_embeddings.version.tolist(),
    ) == (1, [1], [4.5], [9])
    assert (peer_embeddings.node.tolist(), peer_embeddings.peer.tolist(), peer_embeddings.vectors.tolist()) == (
        [b"ua"],
        [b"ib"],
        [[1, 2, 3]],
    )
    assert engine.features == [(b"ub", [3.0, 4.0])]
    assert (received.records, received.half_edges, received.messages) == (2, 2, 1)
    assert receiver.watermark([A, NODES]) == 1.0
    assert receiver.watermark([]) == -math.inf


def test_record_in_the_state_already_is_skipped() -> None:
    store = MemoryStore()
    progress = PartitionProgress(LAYOUT.fingerprint, offset=4)
    store.write([(RESERVED_KEY, progress.encode())])
    engine = SpyEngine()
    receiver = _receiver(engine, store)
    assert engine.opened
    _receive(receiver, [_record(4, _block(0, 1, 0)), _record(5, _block(1, 2, 1))], 10**9)
    assert engine.ids() == [b"x1"]
    assert receiver.progress.offset == 5


def test_record_whose_content_is_known_only_moves_on() -> None:
    engine = SpyEngine()
    receiver = _receiver(engine)
    value = _record(0, _block(0, 1, 0)).value or b""
    received = _receive(receiver, [OwnWrite(0, value, is_known=True), OwnWrite(1, value)], 10**9)
    assert (receiver.progress.offset, received.records, engine.ids()) == (1, 2, [b"x0"])


def test_missing_record_of_propagation_stops_with_the_offsets() -> None:
    receiver = _receiver(SpyEngine())
    with pytest.raises(LostDataError, match="propagation/3: record 0 comes next, but 2 was read"):
        _receive(receiver, [_record(2, _block(0, 1, 0))], 10**9)


def test_source_offsets_received_before_are_skipped() -> None:
    engine = SpyEngine()
    receiver = _receiver(engine)
    received = _receive(receiver, [_record(0, _block(0, 3, 0, 2)), _record(1, _block(1, 5, 1, 2, 4))], 10**9)
    assert engine.ids() == [b"x0", b"x2", b"x4"]
    assert received.duplicates == 2


def test_only_what_comes_again_is_skipped_of_what_several_sources_and_topics_hold() -> None:
    engine = SpyEngine()
    receiver = _receiver(engine)
    b, c = Source(SourceTopic.INTERACTIONS, 1), Source(SourceTopic.NODES, 1)
    features = np.zeros(3, LAYOUT.feature)
    features["node"], features["origin"] = [b"ua", b"ub", b"uc"], pack_origins(1, np.array([0, 1, 2]))
    first = [Block(A, 0, 5, 1.0), Block(b, 0, 2, 1.0), Block(c, 0, 2, 1.0)]
    _receive(receiver, [Read(0, encode_packet(LAYOUT, encode_blocks(first)))], 10**9)
    told = [_block(5, 6, 5), _block(1, 4, 1, 2, source=b)]
    edges = np.concatenate([entries for _, entries in told])
    blocks = encode_blocks([*(block for block, _ in told), Block(c, 0, 3, 1.0)])
    received = _receive(receiver, [Read(1, encode_packet(LAYOUT, blocks, edges, features))], 10**9)
    assert engine.ids() == [b"x5", b"x2"]
    assert [node for node, _ in engine.features] == [b"uc"]
    assert received.duplicates == 1


def test_gap_in_a_source_stops() -> None:
    receiver = _receiver(SpyEngine())
    with pytest.raises(LostDataError, match="offsets 3 to 3"):
        _receive(receiver, [_record(0, _block(0, 3, 0)), _record(1, _block(4, 5, 4))], 10**9)


def test_half_edges_come_with_the_watermark_before_their_record_whoever_reads_it_when() -> None:
    """Read at once, one by one, or after a crash between: what may have been computed by then is the same."""
    records = [
        _record(0, _block(0, 1, 0, time=1.0, watermark=9.0)),
        _record(1, _block(1, 2, 1, time=8.0, watermark=10.0)),
        _record(2, _block(2, 4, 2, 3, time=[9.5, 9.0], watermark=11.0)),
    ]
    expected = [-math.inf, 9.0, 10.0, 10.0]
    for cuts in ([3], [1, 2, 3], [2, 3]):
        store, begin, passed = MemoryStore(), 0, []
        for cut in cuts:
            engine = SpyEngine()
            receiver = _receiver(engine, store)
            received = _receive(receiver, records[begin:cut], 10**9)
            passed += [each for part in engine.half_edges for each in part.passed.tolist()]
            store.write([(RESERVED_KEY, receiver.progress.encode())])
            begin = cut
        assert passed == expected
    assert received.behind == {0: 2}


def test_half_edges_of_one_record_are_never_behind_each_other() -> None:
    engine = SpyEngine()
    b = Source(SourceTopic.INTERACTIONS, 7)
    told = [_block(0, 3, 0, 2, time=[3.0, 4.0], watermark=4.0), _block(4, 5, 4, time=5.0, watermark=5.0, source=b)]
    received = _receive(_receiver(engine), [_record(0, *told)], 10**9)
    (rows,) = engine.half_edges
    assert rows.interaction.tolist() == [b"x0", b"x2", b"x4"]
    assert [unpack_origin(number) for number in rows.origin.tolist()] == [(0, 0), (0, 2), (7, 4)]
    assert (rows.passed.tolist(), received.behind.total()) == ([-math.inf] * 3, 0)


def test_what_came_behind_is_counted_by_its_source() -> None:
    engine = SpyEngine()
    b = Source(SourceTopic.INTERACTIONS, 7)
    receiver = _receiver(engine)
    first = _record(0, _block(0, 1, 0, watermark=9.0), _block(0, 0, watermark=9.0, source=b))
    second = _record(1, _block(1, 3, 1, 2, time=[8.0, 9.0], watermark=9.0), _block(0, 1, 0, time=7.0, source=b))
    assert _receive(receiver, [first, second], 10**9).behind == {0: 1, 7: 1}


def test_no_more_is_taken_in_than_fits_into_a_commit() -> None:
    engine = SpyEngine(bytes_per_row=60)
    receiver = _receiver(engine)
    edges = np.zeros(1500, LAYOUT.half_edge)
    edges["origin"] = np.arange(1500)
    big = [Read(n, encode_packet(LAYOUT, encode_blocks([Block(A, n, n + 1, 0.0)]), edges)) for n in range(40)]
    assert len(big[0].value or b"") > 100_000
    received = _receive(receiver, big, 100_000)
    assert 0 < received.records < 40
    assert receiver.progress.offset == received.records - 1


def test_state_of_other_widths_is_refused() -> None:
    store = MemoryStore()
    store.write([(RESERVED_KEY, PartitionProgress(layout=1).encode())])
    with pytest.raises(LostDataError, match="other widths"):
        _receiver(SpyEngine(), store)


@pytest.mark.parametrize("form", [STATE_FORMAT - 1, STATE_FORMAT + 1])
def test_state_of_another_version_is_refused_before_the_engine_reads_it_and_stays_as_it_was(form: int) -> None:
    store, engine = MemoryStore(), SpyEngine()
    # Of another version the rest may mean anything.
    store.write([(RESERVED_KEY, bytes([form, 1, 2])), (IDENTITY_KEY, b"?")])
    before = list(store.scan(b""))
    with pytest.raises(FormatError, match=r"propagation/3: The state has format"):
        _receiver(engine, store)
    assert not engine.opened
    assert list(store.scan(b"")) == before


def test_state_with_decayed_sums_of_other_constants_is_refused() -> None:
    store = MemoryStore()
    first = _receiver(SpyEngine(config=ModelConfig(decay_s=(7.0, 28.0))), store)
    store.write([(RESERVED_KEY, first.progress.encode())])
    _receiver(SpyEngine(config=ModelConfig(decay_s=(7.0, 28.0))), store)
    for others in ((), (7.0,), (7.0, 30.0)):
        with pytest.raises(LostDataError, match="decay_days"):
            _receiver(SpyEngine(config=ModelConfig(decay_s=others)), store)


def test_state_of_other_widths_is_refused_before_the_engine_reads_it() -> None:
    store = MemoryStore()
    store.write([(RESERVED_KEY, PartitionProgress(replace(LAYOUT, edge_width=1).fingerprint).encode())])
    engine = SpyEngine()
    with pytest.raises(LostDataError, match="edge features"):
        _receiver(engine, store)
    assert not engine.opened


def test_state_of_another_meaning_is_refused_before_the_engine_reads_it_and_the_difference_is_named() -> None:
    """Widths are the same; all nodes would lose their past in silence."""
    store = MemoryStore()
    was = Identity({"graph.bipartite": True, "features": []}, IDENTITY.topics)
    store.write([(IDENTITY_KEY, was.encode())])
    engine = SpyEngine()
    with pytest.raises(LostDataError, match=r"propagation/3: .*graph\.bipartite was true, is false"):
        _receiver(engine, store)
    assert not engine.opened


@pytest.mark.parametrize("topic", ["interactions", "models"])
def test_state_made_from_another_topic_of_the_same_name_is_refused(topic: str) -> None:
    store = MemoryStore()
    was = Identity(IDENTITY.meaning, {**IDENTITY.topics, topic: UUID(int=9)})
    store.write([(IDENTITY_KEY, was.encode())])
    with pytest.raises(LostDataError, match=f"'{topic}' was deleted and created again.*replay the log"):
        _receiver(SpyEngine(), store)


def test_what_the_state_rests_on_is_in_its_first_commit_and_no_other() -> None:
    store = MemoryStore()
    receiver = _receiver(SpyEngine(), store)
    first = receiver.account()
    assert [key for key, _ in first] == [IDENTITY_KEY, RESERVED_KEY]
    assert [key for key, _ in receiver.account()] == [RESERVED_KEY]
    store.write(first)
    assert [key for key, _ in _receiver(SpyEngine(), store).account()] == [RESERVED_KEY]


def test_id_of_a_topic_that_was_not_known_is_adopted() -> None:
    """Brokers before 2.8 give none."""
    store = MemoryStore()
    store.write([(IDENTITY_KEY, Identity(IDENTITY.meaning, {}).encode())])
    (key, value), _ = _receiver(SpyEngine(), store).account()
    assert (key, Identity.decode(value or b"")) == (IDENTITY_KEY, IDENTITY)


def test_foreign_record_names_its_place() -> None:
    with pytest.raises(WireError, match="propagation/3/0: not a record"):
        _receive(_receiver(SpyEngine()), [Read(0, b"hello")], 10**9)


def test_rows_of_several_sources_tell_the_record_that_each_came_from() -> None:
    engine = SpyEngine()
    first, second = _block(0, 5, 2, 4), _block(7, 9, 8, source=Source(SourceTopic.INTERACTIONS, 300))
    _receive(_receiver(engine), [_record(0, first, second)], 10**9)
    (rows,) = engine.half_edges
    assert [unpack_origin(number) for number in rows.origin.tolist()] == [(0, 2), (0, 4), (300, 8)]


def test_close_drops_the_engines_memory() -> None:
    engine = SpyEngine()
    _receiver(engine).close()
    assert not engine.opened


def test_first_record_of_a_commit_is_taken_however_large_and_none_upon_a_full_one() -> None:
    engine = SpyEngine()
    receiver = _receiver(engine)
    records = [_record(0, _block(0, 2, 0, 1)), _record(1, _block(2, 4, 2, 3))]
    assert _receive(receiver, records, 1).records == 1
    engine.bytes_per_row = 1
    assert _receive(receiver, records[1:], 1).records == 0
    engine.half_edges.clear()
    assert _receive(receiver, records[1:], 1).records == 1
