"""What the engine keeps of a node, for tests: nobody else looks at all of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine import Engine
from stream_tgat.engine.values import Bytes, Floats, Integers, Times
from stream_tgat.storage import tables
from stream_tgat.storage.layout import LATE, PLACEHOLDER


@dataclass(frozen=True)
class KeptRows:
    """The rows kept of one node in their order, as the engine has them."""

    interaction: Bytes  # S[n]
    peer: Bytes  # S[n]
    side: NDArray[np.uint8]  # [n]
    time: Times  # [n]
    late: NDArray[np.bool_]  # [n]
    edge: Floats  # [n, E]
    peer_embeddings: tuple[Floats, ...]  # one layer each, [n, w_layer]; zero where absent
    versions: Integers  # [n, L], -1 where a peer embedding is absent
    done: NDArray[np.bool_]  # [n], the row's own embedding has left
    degree: int  # every row ever received, kept or not


def kept_rows(engine: Engine, partition: int, node: bytes) -> KeptRows:
    """The rows kept of a node, in order."""
    arena = engine._arena
    (place,) = arena.nodes_of(partition, np.array([node]), time.monotonic())
    t, layout = arena.t, arena.layout
    record = t.nodes[int(place)]
    slots = t.order[record["block"] : record["block"] + record["count"]]
    slots = slots[t.rows["flags"][slots] & PLACEHOLDER == 0]
    rows, payload = t.rows[slots], t.payload[slots]
    versions = rows["version"][:, : len(layout.state_widths)].copy()
    peer_embeddings = tuple(
        np.where(versions[:, layer, None] >= 0, payload[:, offset : offset + width], np.float32(0))
        for layer, (offset, width) in enumerate(zip(layout.peer_embedding_offsets, layout.state_widths, strict=True))
    )
    return KeptRows(
        interaction=arena.interactions_at(slots),
        peer=arena.peers_at(slots),
        side=rows["side"].copy(),
        time=rows["time"].copy(),
        late=rows["flags"] & LATE != 0,
        edge=payload[:, : layout.edge_width],
        peer_embeddings=peer_embeddings,
        versions=versions,
        done=rows["flags"] & tables.DONE != 0,
        degree=int(record["evicted"]) + len(slots),
    )
