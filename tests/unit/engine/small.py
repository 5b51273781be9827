"""A small engine and half-edges by hand: node n0's rows have the interaction ids that the test gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from stream_tgat.engine import AlertPolicy, Computed, Engine, HalfEdges, PeerEmbeddings
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from tests.unit.nn.models import random_model

NODE = b"n0"
INFINITY = {0: np.inf}


def small_model(**config: Any) -> Model:
    return random_model(torch.float32, **({"layers": 2, "edge_features": 1, "neighbours": 2, "candidates": 3} | config))


def small_engine(
    *,
    version: int = 7,
    cache_bytes: int = 1 << 20,
    alerts: AlertPolicy | None = None,
    max_wait_s: float | None = None,
    store: MemoryStore | None = None,
    model: Model | None = None,
    **config: Any,
) -> Engine:
    """An engine with partition 0 open."""
    model = small_model(**config) if model is None else model
    engine = Engine(model, version, id_bytes=16, cache_bytes=cache_bytes, alerts=alerts, max_wait_s=max_wait_s)
    engine.open(0, store or MemoryStore(), now=0.0)
    return engine


def rows(
    *entries: tuple[bytes, float], node: bytes = NODE, side: int = 0, peers: tuple[bytes, ...] | None = None
) -> HalfEdges:
    """Half-edges of one node: (interaction, time); the edge feature is the time's sine.

    peers: of each; by default there is one for each interaction id
    """
    names, times = [name for name, _ in entries], np.array([time for _, time in entries])
    return HalfEdges(
        node=np.array([node] * len(names)),
        peer=np.array([b"peer-" + name for name in names] if peers is None else peers),
        interaction=np.array(names),
        side=np.full(len(names), side, np.uint8),
        time=times,
        edge=np.sin(times)[:, None].astype(np.float32),
    )


def peer_embeddings(
    *entries: tuple[bytes, float],
    node: bytes = NODE,
    version: int = 7,
    value: float = 0.5,
    peers: tuple[bytes, ...] | None = None,
) -> PeerEmbeddings:
    """Peer embeddings of layer 1 for a node's rows on side 0, from their peers."""
    half = rows(*entries, node=node, peers=peers)
    vectors = np.full((len(half), 8), value, np.float32)
    version_of_each = np.full(len(half), version)
    return PeerEmbeddings(half.node, half.peer, half.interaction, half.side, half.time, version_of_each, vectors, 1)


def left(computed: Computed) -> list[bytes]:
    """Interactions whose embeddings left, in order."""
    return computed.embeddings.interaction.tolist()


def commit(engine: Engine, store: MemoryStore) -> list[tuple[bytes, bytes | None]]:
    changes = engine.take_changes(0)
    if changes:
        store.write(changes)
        engine.committed(0)
    return changes


def reopen(engine: Engine, store: MemoryStore) -> None:
    engine.drop(0)
    engine.open(0, store, now=0.0)
