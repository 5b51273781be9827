"""What is stored keeps its bytes, or says that it does not: docs/upgrading.md promises both.

The digests and the release beside this file were made by the version that introduced each format. Where one of these
tests fails, a version before cannot read what this one writes, or this one cannot read what was written before: raise
the format's number, and add a section to docs/upgrading.md and a line to CHANGELOG.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import numpy as np
import torch

from stream_tgat.engine import AlertPolicy
from stream_tgat.message_passing.progress import STATE_FORMAT, PartitionProgress
from stream_tgat.message_passing.state_identity import Identity
from stream_tgat.topology import Topology
from stream_tgat.training.card import RELEASE_FORMAT
from stream_tgat.training.registry import ReleaseStore
from stream_tgat.wire.packets import (
    PACKET_FORMAT,
    Block,
    PacketLayout,
    PeerEmbeddingSection,
    Source,
    SourceTopic,
    encode_blocks,
    encode_packet,
)
from tests.unit.engine.small import peer_embeddings, rows, small_engine

STATE_DIGESTS = {5: "a2c0cca644a490b7926fdc5b26b16ebb98fc810b4ec13592904bb90752e1e761"}
PACKET_DIGESTS = {3: "0f78a0bbc99d6c3795096d3e44b8cd034e3e0a40c0f3fdf4756115bc220abcce"}
RELEASES = Path(__file__).parent / "releases"

BLOCK = Block(Source(SourceTopic.INTERACTIONS, 1), 3, 9, 4.5, written=(1.0, 2.0))


def _digest(parts: Iterable[bytes | None]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.hexdigest()


def test_bytes_of_the_state_are_those_of_its_format() -> None:
    # Rows, peer embeddings, features and records of nodes that no weights have touched.
    engine = small_engine(
        node_features=2, head_names=("ban", "churn"), alerts=AlertPolicy((0.5, 0.5), (0.0, 0.0)), decay_s=(60.0,)
    )
    past = [(b"a", 1.0), (b"b", 2.0), (b"c", 2.5)]
    engine.append(0, rows(*past))
    engine.fill(0, peer_embeddings(*past, (b"d", 3.0)))
    engine.set_features(0, np.array([b"n0"]), np.array([[1.0, -2.0]], np.float32))
    changes = engine.take_changes(0)

    progress = PartitionProgress(layout=7, offset=11, model=2, passed=1.5, newest=2.5, waiting=1)
    progress.receive(encode_blocks([BLOCK._replace(first=0)]), 2.5)
    topology = Topology.model_validate({"name": "shop", "features": [{"kind": "number", "name": "price"}]})
    identity = Identity.of(topology, {"interactions": UUID(int=1), "propagation": UUID(int=2), "models": UUID(int=3)})

    found = _digest([*(part for change in changes for part in change), progress.encode(), identity.encode()])
    assert {STATE_FORMAT: found} == STATE_DIGESTS


def test_bytes_of_a_packet_are_those_of_its_format() -> None:
    layout = PacketLayout(id_bytes=16, edge_width=1, feature_width=2, peer_embedding_widths=(0, 2), meaning=9)
    half_edges, features = np.zeros(2, layout.half_edge), np.zeros(1, layout.feature)
    half_edges["node"], half_edges["peer"], half_edges["interaction"] = b"ua", b"ib", [b"x", b"y"]
    half_edges["time"], half_edges["edge"], half_edges["origin"] = [1.5, 2.5], [[3.0], [4.0]], [5, 6]
    features["node"], features["vector"], features["origin"] = b"ua", [[7.0, 8.0]], 9
    told = np.zeros(1, layout.peer_embedding[1])
    told["node"], told["peer"], told["interaction"], told["vector"] = b"ua", b"ib", b"x", [[0.5, -0.5]]
    told["version"], told["time"], told["side"] = 3, 1.5, 1

    packet = encode_packet(
        layout, encode_blocks([BLOCK]), half_edges, features, [PeerEmbeddingSection(1, told)], newest=2.5
    )
    assert {PACKET_FORMAT: _digest([packet])} == PACKET_DIGESTS


def test_release_of_each_format_is_read_and_says_what_it_said() -> None:
    expected = json.loads((RELEASES / "predictions.json").read_text())
    store = ReleaseStore(RELEASES)
    assert sorted(expected) == store.names()
    formats = set()
    for name, predictions in expected.items():
        model, release = store.load(name)
        width = model.config.hidden + model.config.event_width
        inputs = torch.linspace(-1, 1, 3 * width).reshape(3, width)
        said = model.predict(inputs[:, : model.config.hidden], inputs[:, model.config.hidden :])
        np.testing.assert_allclose(said.detach().numpy(), predictions, rtol=1e-5)
        formats.add(release.card.format)
    assert RELEASE_FORMAT in formats
