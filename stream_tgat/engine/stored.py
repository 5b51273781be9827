"""What is stored of nodes, read back as values: the peer embeddings of their rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import numpy as np

from stream_tgat.engine import selection
from stream_tgat.engine.values import PeerEmbeddings
from stream_tgat.storage.arena import Arena
from stream_tgat.storage.layout import NODE_PREFIX, PLACEHOLDER
from stream_tgat.storage.tables import plain


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
