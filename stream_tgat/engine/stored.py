"""What is stored of nodes, read back as values: their neighbourhoods and the peer embeddings of their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import numpy as np

from stream_tgat.engine import selection
from stream_tgat.engine.values import PeerEmbeddings, StoredNeighbourhood
from stream_tgat.storage import tables
from stream_tgat.storage.arena import Arena
from stream_tgat.storage.layout import LATE, NODE_PREFIX, PLACEHOLDER
from stream_tgat.storage.tables import plain


def stored_neighbourhood(arena: Arena, place: int) -> StoredNeighbourhood:
    """The rows kept of the node at a place in the arena, in order."""
    t, layout = arena.t, arena.layout
    record = t.nodes[place]
    slots = t.order[record["block"] : record["block"] + record["count"]]
    slots = slots[t.rows["flags"][slots] & PLACEHOLDER == 0]
    rows, payload = t.rows[slots], t.payload[slots]
    versions = rows["version"][:, : len(layout.state_widths)].copy()
    peer_embeddings = tuple(
        np.where(versions[:, layer, None] >= 0, payload[:, offset : offset + width], np.float32(0))
        for layer, (offset, width) in enumerate(zip(layout.peer_embedding_offsets, layout.state_widths, strict=True))
    )
    return StoredNeighbourhood(
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


def kept_peer_embeddings(arena: Arena, partition: int, at_once: int) -> Iterator[PeerEmbeddings]:
    """The peer embeddings of layers 1 … L-1 of all rows that the saved nodes of a partition keep.

    at_once: nodes that are brought into memory together
    """
    layout = arena.layout
    records = arena.store_of(partition).scan(NODE_PREFIX)
    while keys := [key[1:].rstrip(b"\0") for key, _ in islice(records, at_once)]:
        nodes = arena.nodes_of(partition, np.array(keys), time.monotonic())
        slots = selection.slots_of(arena.t, nodes)
        rows = arena.t.rows[slots]
        for layer in range(1, len(layout.state_widths)):
            there = np.flatnonzero((rows["flags"] & PLACEHOLDER == 0) & (rows["version"][:, layer] >= 0))
            offset = layout.peer_embedding_offsets[layer]
            yield PeerEmbeddings(
                node=arena.keys_of(rows["node"][there]),
                peer=arena.peers_at(slots[there]),
                interaction=arena.interactions_at(slots[there]),
                side=plain(rows["side"][there], np.uint8),
                time=plain(rows["time"][there], np.float64),
                version=plain(rows["version"][there, layer], np.int64),
                vectors=arena.t.payload[slots[there], offset : offset + layout.state_widths[layer]],
                layer=layer,
            )
