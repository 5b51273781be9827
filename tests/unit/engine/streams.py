"""Small random streams with everything that is awkward in one: ties, self-loops, hubs, strangers."""

from __future__ import annotations

import random

import numpy as np

from stream_tgat.engine import HalfEdges, both_halves


def awkward_stream(draw: random.Random, count: int, edge_features: int, *, nodes: int = 6, span: int = 30) -> HalfEdges:
    """`count` interactions in random arrival order; nodes share one id space, the first is a hub."""
    names = [b"n%d" % k for k in range(nodes)]
    source, destination, times = [], [], []
    for k in range(count):
        hub = draw.random() < 0.5
        source.append(names[0] if hub else draw.choice(names))
        # Every fifth interaction is a node's first and last.
        destination.append(b"n-once-%d" % k if draw.random() < 0.2 else draw.choice(names))
        times.append(float(draw.randint(0, span)))
    random_edges = np.random.default_rng(draw.randrange(1 << 30)).standard_normal((count, edge_features))
    return both_halves(
        np.array(source),
        np.array(destination),
        np.array([b"t/0/%03d" % k for k in range(count)]),
        np.array(times),
        random_edges.astype(np.float32),
    )


def sorted_by_time(half_edges: HalfEdges) -> HalfEdges:
    """The same interactions in time order, halves together."""
    return half_edges.take(np.lexsort((half_edges.side, half_edges.interaction, half_edges.time)))
