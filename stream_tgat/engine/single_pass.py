"""The oracle: one pass over interactions in one process."""

from __future__ import annotations

from stream_tgat.engine.core import Engine
from stream_tgat.engine.values import Embeddings, HalfEdges


def single_pass(engine: Engine, interactions: HalfEdges, batch_size: int) -> Embeddings:
    """Embeddings of all half-edges (both halves of each interaction next to each other, sorted by time).

    One partition (0, opened here on a MemoryStore), watermark +inf, every memo delivered at once.
    """
    raise NotImplementedError
