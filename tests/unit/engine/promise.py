"""Which embeddings may differ from the single pass, as docs/exactness.md promises of live time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_tgat.engine import HalfEdges
from stream_tgat.nn.model import Model
from tests.unit.engine.oracle import Oracle

Name = tuple[bytes, int]


def doubtful(half_edges: HalfEdges, marked: set[Name], hops: int) -> set[tuple[bytes, float]]:
    """Nodes at times whose state may differ from the single pass.

    Those of a half-edge that came behind, those of its node later on, and those that see such a state, hop by hop.
    """
    keys = list(zip(half_edges.node.tolist(), half_edges.time.tolist(), strict=True))
    names = list(zip(half_edges.interaction.tolist(), half_edges.side.tolist(), strict=True))
    peers = half_edges.peer.tolist()
    first = dict.fromkeys(half_edges.node.tolist(), np.inf)
    for (node, time), name in zip(keys, names, strict=True):
        first[node] = min(first[node], time if name in marked else np.inf)
    found = {(node, time) for node, time in keys if time >= first[node]}
    for _ in range(hops):
        seen = {
            (node, time)
            for node, time in keys
            for (other, then), peer in zip(keys, peers, strict=True)
            if other == node and then < time and (peer, then) in found
        }
        found |= seen
    return found


def check_what_no_marked_row_has_touched(
    model: Model, half_edges: HalfEdges, marked: set[Name], found: dict[Name, Any]
) -> int:
    """Every half-edge has an embedding, and those that are not in doubt are the single pass's. Returns how many."""
    assert found.keys() == set(zip(half_edges.interaction.tolist(), half_edges.side.tolist(), strict=True))
    # With activity a neighbour's neighbour's lowest state, too, looks at a past.
    hops = model.config.layers - (0 if model.config.activity else 1)
    oracle, in_doubt = Oracle(model, half_edges), doubtful(half_edges, marked, hops)
    certain = [row for rows in oracle.rows.values() for row in rows if (row.node, row.time) not in in_doubt]
    for row in certain:
        expected = oracle.state(model.config.layers, row.node, row.time)
        actual = found[row.interaction, row.side]
        np.testing.assert_allclose(actual, expected, atol=1e-4 * max(1.0, np.abs(expected).max()))
    return len(certain)
