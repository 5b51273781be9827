"""Small random streams with everything that is awkward in one: ties, self-loops, hubs, strangers."""

from __future__ import annotations

import random

import numpy as np

from stream_tgat.engine import HalfEdges, both_halves


def awkward_stream(
    draw: random.Random, count: int, edge_features: int, *, nodes: int = 6, span: int = 30, ids: int | None = None
) -> HalfEdges:
    """`count` interactions in random arrival order; nodes share one id space, the first is a hub.

    ids: how many ids they share, those of one id differing in user, item or time; by default each has its own
    """
    names = [b"n%d" % k for k in range(nodes)]
    source, destination, times, interaction = [], [], [], []
    known: set[tuple[bytes, bytes, bytes, float]] = set()
    for k in range(count):
        hub = draw.random() < 0.5
        source.append(names[0] if hub else draw.choice(names))
        # Every fifth interaction is a node's first and last.
        destination.append(b"n-once-%d" % k if draw.random() < 0.2 else draw.choice(names))
        times.append(float(draw.randint(0, span)))
        own = b"t/0/%03d" % k
        shared = own if ids is None else b"s%d" % draw.randrange(ids)
        key = (shared, source[k], destination[k], times[k])
        interaction.append(own if key in known else shared)
        known.add(key)
    random_edges = np.random.default_rng(draw.randrange(1 << 30)).standard_normal((count, edge_features))
    return both_halves(
        np.array(source),
        np.array(destination),
        np.array(interaction),
        np.array(times),
        random_edges.astype(np.float32),
    )


def with_repeats(draw: random.Random, half_edges: HalfEdges, count: int) -> HalfEdges:
    """The same, and `count` interactions once more, each anywhere after its first time."""
    places = list(range(len(half_edges) // 2))
    for _ in range(count):
        repeated = draw.choice(places)
        places.insert(draw.randint(places.index(repeated) + 1, len(places)), repeated)
    return half_edges.take(np.array([[2 * at, 2 * at + 1] for at in places]).reshape(-1))


def sorted_by_time(half_edges: HalfEdges) -> HalfEdges:
    """The same interactions in time order, halves together."""
    order = np.argsort(half_edges.time[::2], kind="stable")
    return half_edges.take(np.stack([2 * order, 2 * order + 1], 1).reshape(-1))
