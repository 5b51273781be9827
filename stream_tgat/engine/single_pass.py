"""The oracle: one pass over interactions in one process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine.core import Engine
from stream_tgat.engine.values import Bytes, FinalEmbeddings, Floats, HalfEdges, Times
from stream_tgat.storage.stores import MemoryStore, Store


def both_halves(source: Bytes, destination: Bytes, interaction: Bytes, time: Times, edge: Floats) -> HalfEdges:
    """The two half-edges of each interaction, next to each other: the source's, then the destination's.

    source, destination, interaction: S[n]   time: f8[n]   edge: f4[n, E]
    """
    n = len(time)

    def interleave(first: Bytes, second: Bytes) -> Bytes:
        pair: NDArray[np.bytes_] = np.stack([first, second], 1)
        return pair.reshape(2 * n)

    return HalfEdges(
        node=interleave(source, destination),
        peer=interleave(destination, source),
        interaction=np.repeat(interaction, 2),
        side=np.tile(np.array([0, 1], np.uint8), n),
        time=np.repeat(time, 2),
        edge=np.repeat(edge, 2, axis=0),
    )


def single_pass(
    engine: Engine, interactions: HalfEdges, batch_size: int, *, partition: int = 0, store: Store | None = None
) -> FinalEmbeddings:
    """Embeddings of all half-edges, in the order in which they leave.

    interactions: both halves of each interaction next to each other, sorted by time
    batch_size: interactions at a time
    One partition, opened here on `store` (a MemoryStore by default); the watermark is the time of what comes next;
    peer embeddings are delivered at once.
    """
    store = MemoryStore() if store is None else store
    engine.open(partition, store)
    leaving = []
    for at in range(0, len(interactions), 2 * batch_size):
        end = at + 2 * batch_size
        engine.append(partition, interactions.take(slice(at, end)))
        # What happens at one time stays together, also where a batch cuts it: it has one degree and one order.
        watermark = interactions.time[end] if end < len(interactions) else np.inf
        leaving += settle(engine, partition, 2 * batch_size, watermark)
        engine.save(partition)
    return FinalEmbeddings.concatenate(leaving or [engine.compute({}, 1).embeddings])


def settle(engine: Engine, partition: int, limit: int, watermark: float = np.inf) -> list[FinalEmbeddings]:
    """Compute, and deliver peer embeddings within the partition, until nothing more is ready.

    Returns the embeddings that have left, those of each pass together.
    """
    leaving = []
    while True:
        computed = engine.compute({partition: watermark}, limit)
        for peer_embeddings in computed.peer_embeddings:
            engine.fill(partition, peer_embeddings)
        if len(computed.embeddings):
            leaving.append(computed.embeddings)
        if not computed.rows:
            return leaving
