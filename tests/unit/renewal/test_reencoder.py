"""Rows that hold peer embeddings of an older model hold those of the new one in the end, as if it had served from the
beginning.

The worker is one engine, which swaps its weights in the middle; the oracle is one that never knew the old weights.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from stream_tgat.engine import AlertPolicy, PeerEmbeddings
from stream_tgat.message_passing.packing import SourceRecord
from stream_tgat.nn.model import Model
from stream_tgat.renewal.reencoder import Reencoder
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import Topology
from stream_tgat.training.shape import model_config
from stream_tgat.wire.packets import Source, SourceTopic
from tests.integration.equality.oracle import TOLERANCE, Oracle
from tests.integration.equality.streams import RANDOM_FEATURES, Log, Record, random_log, shifted

OLD, NEW = 3, 8
PARTITIONS = 3
NOW = 1_700_000_000.0
SILENT = AlertPolicy((), ())


@dataclass
class Read:
    """A record as a Kafka client gives it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] | None
    timestamp: float = 2e9


def topology_of(layers: int, node_features: int, clock: str = "event") -> Topology:
    text = f"""
name = "renewal"
graph = {{ node_features = {node_features}, max_id_bytes = 48 }}
time = {{ clock = "{clock}", allowed_lateness_s = 5.0 }}
model = {{ layers = {layers}, neighbours = 3, candidates = 4, hidden = 8, time_dim = 4, activity = false }}
serving = {{ cache_bytes = 1048576, micro_batch = 16, max_pending = 20 }}
{RANDOM_FEATURES}
"""
    return Topology.model_validate(tomllib.loads(text))


def model_of(topology: Topology, seed: int) -> Model:
    torch.manual_seed(seed)
    return Model(model_config(topology)).eval()


class Feed:
    """Gives a re-encoder what it is free to read, of one partition or another, as a client would."""

    def __init__(self, topology: Topology, model: Model, log: Log, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.waiting: dict[Source, list[SourceRecord]] = {
            Source(SourceTopic.INTERACTIONS, p): [] for p in range(PARTITIONS)
        }
        self.ends = dict.fromkeys(self.waiting, 0)
        if log.nodes:
            nodes = Source(SourceTopic.NODES, 0)
            self.waiting[nodes] = [Read("nodes", 0, n, key, value, None) for n, (key, value) in enumerate(log.nodes)]
            self.ends[nodes] = len(log.nodes)
        self.reencoder = Reencoder(topology, model, NEW, dict.fromkeys(self.waiting, 0), MemoryStore())

    def read(self, records: Iterable[Record], *, is_complete: bool = True) -> list[PeerEmbeddings]:
        for each in records:
            source = Source(SourceTopic.INTERACTIONS, each.partition)
            self.waiting[source].append(
                Read("interactions", each.partition, self.ends[source], None, each.value, each.headers)
            )
            self.ends[source] += 1
        made = []
        while any(self.waiting.values()):
            free = sorted(source for source in self.reencoder.free() if self.waiting[source])
            assert free, "nothing may be read, and something waits"
            batch = {}
            for source in free:
                count = int(self.random.integers(1, 30))
                batch[source], self.waiting[source] = self.waiting[source][:count], self.waiting[source][count:]
            at_end = {s: NOW for s in batch if s.topic is SourceTopic.NODES and not self.waiting[s]}
            made += self.reencoder.take(batch, at_end, NOW)
        assert (self.reencoder.pending == 0) == is_complete, "the punctuation at the end lets everything go"
        return made


def fill(worker: Oracle, peer_embeddings: Iterable[PeerEmbeddings]) -> None:
    for each in peer_embeddings:
        assert each.layer > 0
        worker.engine.fill(0, each)
    worker.engine.save(0)


def oracle_of(topology: Topology, model: Model, version: int, log: Log) -> Oracle:
    oracle = Oracle(topology, model, version, SILENT)
    oracle.set_features(log.nodes)
    return oracle


def furthest(worker: Oracle, fresh: Oracle) -> float:
    """The largest difference of peer embeddings that weights have made; the rows themselves are the same."""
    there, wanted = worker.neighbourhoods(), fresh.neighbourhoods()
    assert there.keys() == wanted.keys()
    largest = 0.0
    for node, one in there.items():
        other = wanted[node]
        assert one.interaction.tolist() == other.interaction.tolist()
        for mine, theirs in zip(one.peer_embeddings[1:], other.peer_embeddings[1:], strict=True):
            largest = max(largest, float(np.abs(mine - theirs).max(initial=0.0)))
    return largest


@pytest.mark.parametrize(("layers", "node_features"), [(2, 3), (2, 0), (3, 3)])
def test_after_the_rounds_all_is_as_if_the_model_had_served_from_the_beginning(layers: int, node_features: int) -> None:
    topology = topology_of(layers, node_features)
    old, new = model_of(topology, 1), model_of(topology, 2)
    log = random_log(1, partitions=PARTITIONS, node_features=node_features)
    sizes = (200, 12, 12, 60)  # few after the switch, so that rows of before are still kept
    parts = [
        shifted(random_log(size, partitions=PARTITIONS, seed=seed).records, seed) for seed, size in enumerate(sizes)
    ]
    worker, fresh = oracle_of(topology, old, OLD, log), oracle_of(topology, new, NEW, log)
    feed = Feed(topology, new, log)

    worker.take(parts[0])
    worker.engine.swap(new, NEW, SILENT)
    worker.take(parts[1])  # on peer embeddings of the old weights
    feed.read([*parts[0], *parts[1]])
    worker.take(parts[2])  # while the log was read
    for part in parts[:3]:
        fresh.take(part)
    assert furthest(worker, fresh) > TOLERANCE

    fill(worker, feed.reencoder.kept())
    # With three layers, what came while the log was read may rest on peer embeddings that rest on the old weights.
    assert (furthest(worker, fresh) > TOLERANCE) == (layers > 2)
    if layers > 2:
        fill(worker, feed.read(parts[2]))
    assert furthest(worker, fresh) <= TOLERANCE
    assert {v for each in worker.neighbourhoods().values() for v in each.versions[:, 1:].ravel()} == {NEW}

    before = set(fresh.embeddings)
    worker.take(parts[3])
    fresh.take(parts[3])
    newest = fresh.embeddings.keys() - before
    assert newest
    for key in newest:
        assert np.abs(worker.embeddings[key].embedding - fresh.embeddings[key].embedding).max() <= TOLERANCE, key


def test_what_is_read_piece_by_piece_gives_the_rows_and_peer_embeddings_of_one_pass_over_the_sorted_log() -> None:
    topology = topology_of(2, 3)
    model, log = model_of(topology, 2), random_log(400, partitions=PARTITIONS, seed=7)
    oracle = oracle_of(topology, model, NEW, log)
    oracle.take(log.records)
    for seed in range(3):
        feed = Feed(topology, model, log, seed)
        feed.read(log.records)
        wanted = {
            (node, bytes(interaction), int(side)): vector
            for node, each in oracle.neighbourhoods().items()
            for interaction, side, vector in zip(each.interaction, each.side, each.peer_embeddings[1], strict=True)
        }
        found = {}
        for peer_embeddings in feed.reencoder.kept():
            assert peer_embeddings.layer == 1
            keys = zip(
                peer_embeddings.node.tolist(),
                peer_embeddings.interaction.tolist(),
                peer_embeddings.side.tolist(),
                strict=True,
            )
            found.update(zip(keys, peer_embeddings.vectors, strict=True))
        assert found.keys() == wanted.keys()
        assert max(np.abs(found[key] - wanted[key]).max() for key in wanted) <= TOLERANCE


def test_one_source_that_is_read_ahead_waits_for_the_others() -> None:
    """Memory is bounded: what waits for the sources furthest behind is hardly more than max_pending."""
    topology = topology_of(2, 0)
    log = random_log(400, partitions=PARTITIONS, node_features=0)
    feed = Feed(topology, model_of(topology, 2), log)
    most = 0
    ahead = [each for each in log.records if each.partition == 0]
    source = Source(SourceTopic.INTERACTIONS, 0)
    for offset, each in enumerate(ahead):
        if source not in feed.reencoder.free():
            break
        record = Read("interactions", 0, offset, None, each.value, each.headers)
        feed.reencoder.take({source: [record]}, {}, NOW)
        most = max(most, feed.reencoder.pending)
    else:
        pytest.fail("it could be read to its end")
    assert most <= topology.serving.max_pending + 2
    assert feed.reencoder.free() == {Source(SourceTopic.INTERACTIONS, p) for p in range(1, PARTITIONS)}


def test_at_the_end_of_the_log_the_clock_lets_the_last_ones_go_where_the_deployment_goes_by_the_clock() -> None:
    topology = topology_of(2, 0, clock="wall")
    log = random_log(60, partitions=PARTITIONS, node_features=0, punctuation_every=1_000)
    records = [each for each in log.records if each.value is not None]
    feed = Feed(topology, model_of(topology, 2), log)
    feed.read(records, is_complete=False)
    assert feed.reencoder.pending > 0
    feed.reencoder.take({}, dict.fromkeys(feed.ends, NOW), NOW)
    assert feed.reencoder.pending == 0
