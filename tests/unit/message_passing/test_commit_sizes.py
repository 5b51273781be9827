"""No commit outgrows a batch of the changelog: what one may need is known from widths, and settings are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_tgat.engine import Engine
from stream_tgat.errors import TopologyError
from stream_tgat.message_passing.commit_sizes import CommitSizes, changes_per_byte, check_micro_batch, largest_packet
from stream_tgat.message_passing.receiving import Receiver, receive
from stream_tgat.message_passing.state_identity import Identity
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology
from stream_tgat.transport.changelog import Changelog
from stream_tgat.wire.packets import Block, PacketLayout, Source, SourceTopic, encode_blocks, encode_packet
from tests.unit.agents.fakes import Message
from tests.unit.engine.small import INFINITY, commit, peer_embeddings, rows, small_engine

CANDIDATES, NODES = 40, 30
LAYOUT = PacketLayout(id_bytes=16, edge_width=1, feature_width=0, peer_embedding_widths=(0, 8))
SIZES = CommitSizes.of(LAYOUT, CANDIDATES, ())
COMMIT = 8 << 20


def _nodes(prefix: str = "n") -> list[bytes]:
    return [f"{prefix}{number:03d}".encode() for number in range(NODES)]


def _row(node: bytes, number: int) -> tuple[bytes, float]:
    return b"%s-%04d" % (node, number), float(number)


def _aged(store: MemoryStore, ages: int) -> Engine:
    """Nodes with so many rows, all in the store and pending."""
    engine = small_engine(candidates=CANDIDATES, max_wait_s=1.0, store=store)
    for node in _nodes():
        engine.append(0, rows(*[_row(node, number) for number in range(ages)], node=node))
    commit(engine, store)
    return engine


def _done(store: MemoryStore, ages: int) -> Engine:
    """The same when all embeddings have left."""
    engine = _aged(store, ages)
    while engine.pending():
        _leave(engine)
    commit(engine, store)
    return engine


def _leave(engine: Engine) -> int:
    """One embedding of each node leaves, forced: peer embeddings are not what matters here."""
    return len(engine.compute(INFINITY, NODES, now=1e12).embeddings)


def test_half_edges_add_no_more_than_their_bound_and_not_much_less() -> None:
    store = MemoryStore()
    engine = _done(store, CANDIDATES)
    for node in _nodes():
        engine.append(0, rows(_row(node, CANDIDATES), node=node))
    size = Changelog.size(engine.take_changes(0))
    assert 0.8 * NODES * SIZES.half_edge < size <= NODES * SIZES.half_edge


def test_micro_batch_adds_no_more_than_its_bound_and_not_much_less() -> None:
    """Worst: messages for rows of this partition, a last embedding of each node, and a row that drops out for it."""
    store = MemoryStore()
    # So many waited at once that rows have numbers which are deleted and not written over.
    ages = 4 * CANDIDATES
    engine = _done(store, ages)
    for node in _nodes():
        engine.append(0, rows(_row(node, ages), node=node))
    commit(engine, store)
    for node in _nodes():
        engine.fill(0, peer_embeddings(_row(node, ages - 1), node=node))
    assert _leave(engine) == NODES
    changes = engine.take_changes(0)
    assert sum(value is None and key[:1] == b"r" for key, value in changes) == NODES
    assert 0.8 * NODES * SIZES.computed < Changelog.size(changes) <= NODES * SIZES.computed


def test_estimate_of_a_commit_covers_what_the_log_adds() -> None:
    store = MemoryStore()
    engine = _aged(store, CANDIDATES)
    # Many small changes of one node.
    engine.fill(0, peer_embeddings(*[_row(b"n000", number) for number in range(CANDIDATES)], node=b"n000"))
    estimate = engine.changes_bytes(0)
    assert Changelog.size(engine.take_changes(0)) <= Changelog.size([]) + estimate


def test_nothing_beyond_the_share_is_taken_in_however_long_the_heads_are() -> None:
    """Of nodes with many rows, small half-edges make many times their bytes: no fixed amount of them is safe."""
    store = MemoryStore()
    engine = _aged(store, CANDIDATES)
    engine.drop(0)
    receiver = Receiver(engine, LAYOUT, "propagation", 0, store, Identity({}, {}))
    share = NODES * SIZES.half_edge // 2
    records = [_record(offset, node) for offset, node in enumerate(_nodes())]
    sizes: list[int] = []
    while records:
        received = receive(engine, [(receiver, records)], share, ())[0]
        changes = engine.take_changes(0)
        sizes.append(Changelog.size(changes))
        store.write(changes)
        engine.committed(0)
        records = records[received.records :]
    assert max(sizes) <= share
    assert 2 <= len(sizes) <= 5


def _record(offset: int, node: bytes) -> Message:
    entries = np.zeros(1, LAYOUT.half_edge)
    entries["origin"], entries["time"], entries["node"], entries["peer"] = offset, 1000.0, node, b"peer"
    entries["interaction"] = b"x%d" % offset
    blocks = encode_blocks([Block(Source(SourceTopic.INTERACTIONS, 0), offset, offset + 1, 0.0)])
    return Message("propagation", 0, offset, encode_packet(LAYOUT, blocks, entries))


@pytest.mark.parametrize(("candidates", "is_full"), [(20, True), (450, False), (2000, False)])
def test_largest_packet_fits_into_the_share_of_what_is_received(candidates: int, is_full: bool) -> None:
    topology = Topology.model_validate({"name": "t", "model": {"candidates": candidates}})
    largest = largest_packet(topology, LAYOUT, COMMIT)
    assert largest * changes_per_byte(LAYOUT, candidates, ()) <= COMMIT / 2
    assert (largest == 900_000) == is_full


def _topology(**serving: Any) -> Topology:
    heads = [{"name": f"head-{n}"} for n in range(4)]
    return Topology.model_validate({"name": "t", "serving": serving, "heads": heads})


def test_micro_batch_that_one_commit_may_not_hold_is_refused_with_one_that_it_holds() -> None:
    layout = PacketLayout(40, 172, 100, (100, 172))
    check_micro_batch(_topology(), layout, COMMIT)
    with pytest.raises(TopologyError, match=r"serving.micro_batch: 20000 rows .* use (\d+) or less") as caught:
        check_micro_batch(_topology(micro_batch=20_000), layout, COMMIT)
    named = int(str(caught.value).split("use ")[1].split()[0])
    check_micro_batch(_topology(micro_batch=named), layout, COMMIT)
    with pytest.raises(TopologyError):
        check_micro_batch(_topology(micro_batch=named + 1), layout, COMMIT)
