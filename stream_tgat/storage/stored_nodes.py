"""Nodes from their stored bytes: node records first, then the rows and peer embeddings that they list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import StateError
from stream_tgat.storage import rows, tables
from stream_tgat.storage.pool import Pool
from stream_tgat.storage.stores import Store
from stream_tgat.storage.tables import plain


@dataclass(frozen=True)
class _Listed:
    """The rows that node records list, a node's in order: its key and place, the row's position in its order and
    number.

    levels: u1[n, heads], of the prediction heads that there are now
    """

    owner: NDArray[np.bytes_]
    node: NDArray[np.int32]
    position: NDArray[np.int64]
    number: NDArray[np.int64]
    done: NDArray[np.bool_]
    levels: NDArray[np.uint8]


def load_nodes(pool: Pool, store: Store, keys: Sequence[bytes], places: NDArray[np.int32], now: float) -> None:
    """What `store` has of nodes, by key [n], into their places in the pool i4[n], where they are empty yet.

    StateError where it lacks a row that a node record lists.
    """
    layout = pool.layout
    lookups = [layout.node_key(b"h", key) for key in keys]
    if layout.feature_width:
        lookups += [layout.node_key(b"f", key) for key in keys]
    values = store.get_many(lookups)
    for place, value in zip(places, values[len(keys) :], strict=False):
        if value is not None:
            pool.features[place] = np.frombuffer(value, np.float32)
    records = [(k, value) for k, value in enumerate(values[: len(keys)]) if value is not None]
    if not records:
        return
    listed = _read_nodes(pool, keys, places, records)
    layers = [layer for layer, width in enumerate(layout.state_widths) if width]
    lookups = layout.row_keys(listed.owner, listed.number)
    for layer in layers:
        lookups += layout.peer_embedding_keys(listed.owner, listed.number, layer)
    values, count = store.get_many(lookups), len(listed.number)
    _load_rows(pool, listed, values[:count], now)
    for n, layer in enumerate(layers, start=1):
        _load_peer_embeddings(pool, listed, values[n * count : (n + 1) * count], layer)
    pool.t.nodes["indexed"][places] = pool.t.nodes["pending"][places] > 0


def _read_nodes(
    pool: Pool, keys: Sequence[bytes], places: NDArray[np.int32], records: list[tuple[int, bytes]]
) -> _Listed:
    """Counters and alert states into the nodes' places; returns what the records list."""
    layout = pool.layout
    found = [_read_node(pool, int(places[k]), value) for k, value in records]
    counts = [len(entries) for entries, _ in found]
    joined = np.concatenate([entries for entries, _ in found])
    read = np.array([k for k, _ in records])
    return _Listed(
        owner=np.repeat(np.array([keys[k] for k in read], f"S{layout.id_bytes}"), counts),
        node=np.repeat(places[read], counts),
        position=np.concatenate([np.arange(count) for count in counts]),
        number=(joined >> 1).astype(np.int64),
        done=(joined & 1).astype(np.bool_),
        levels=np.concatenate([levels for _, levels in found]),
    )


def _read_node(pool: Pool, place: int, value: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """One record into its node's place; returns its entries, number · 2 + done, and their levels."""
    ids = pool.layout.head_ids
    found = pool.layout.read_node(value)
    record = pool.t.nodes[place : place + 1]
    record["seq"], record["evicted"] = found.seq, found.evicted
    pool.t.sums[place] = found.sums
    levels = np.zeros((len(found.entries), len(ids)), np.uint8)
    if len(ids):
        pool.probability[place], pool.newest[place], pool.alerted[place] = np.nan, -np.inf, -np.inf
        # Written, perhaps, while there were other prediction heads, or these in another order.
        known, of = np.nonzero(ids[:, None] == found.alerts["head"])
        pool.probability[place, known] = found.alerts["probability"][of]
        pool.newest[place, known] = found.alerts["newest"][of]
        pool.alerted[place, known] = found.alerts["alerted"][of]
        levels[:, known] = found.levels[:, of]
    return found.entries.astype(np.uint32), levels


def _load_rows(pool: Pool, listed: _Listed, values: Sequence[bytes | None], now: float) -> None:
    layout = pool.layout
    there = [value for value in values if value is not None]
    if len(there) < len(values):
        node = bytes(listed.owner[list(values).index(None)])
        raise StateError(f"the store lacks a row that the record of node {node!r} lists; restore it from its changelog")
    stored = np.frombuffer(b"".join(there), layout.row)
    ids, peers = layout.words(stored["interaction"]), layout.words(stored["peer"])
    flags = stored["flags"] | (listed.done * np.uint8(tables.DONE))
    pool.reserve_pending(len(stored))
    time, seq, side = (
        plain(stored["time"], np.float64),
        plain(stored["seq"], np.uint32),
        plain(stored["side"], np.uint8),
    )
    edge, origin = plain(stored["edge"], np.float32), plain(stored["origin"], np.int64)
    flags, levels, first = plain(flags, np.uint8), plain(listed.levels, np.uint8), pool.first_layer
    pool.with_room(
        len(stored),
        lambda t, begin: rows.load_rows(
            t, begin, listed.node, listed.number, ids, peers, time, seq, side, flags, levels, edge, origin, first, now
        ),
    )


def _load_peer_embeddings(pool: Pool, listed: _Listed, values: Sequence[bytes | None], layer: int) -> None:
    layout = pool.layout
    there = np.array([k for k, value in enumerate(values) if value is not None], np.int64)
    peer_embedding = np.frombuffer(
        b"".join(value for value in values if value is not None), layout.peer_embedding[layer]
    )
    rows.load_peer_embeddings(
        pool.t,
        listed.node[there],
        listed.position[there],
        plain(peer_embedding["seq"], np.uint32),
        plain(peer_embedding["version"], np.int64),
        plain(peer_embedding["vector"], np.float32),
        layer,
        layout.peer_embedding_offsets[layer],
    )
