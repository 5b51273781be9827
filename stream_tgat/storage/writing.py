"""Changes of the arena as keys and values for a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stream_tgat.storage import rows, tables
from stream_tgat.storage.layout import LATE, PENDING_PREFIX, STUB, level_bytes, packed_levels, pairs
from stream_tgat.storage.tables import Array

if TYPE_CHECKING:
    from stream_tgat.storage.arena import Arena

Changes = list[tuple[bytes, bytes | None]]

#: What a log adds to a change beside key and value, at most.
_LOGGED_BYTES = 24


def changes(arena: Arena, partition: int, nodes: NDArray[np.int32]) -> Changes:
    """Keys and values of these nodes that differ from the store, and the partition's deletions."""
    t, layout = arena.t, arena.layout
    layers = len(layout.state_widths)
    counts = rows.count_changes(t, nodes, layers)
    entries = np.empty(counts[0], np.uint32)
    levels = np.empty((counts[0], len(layout.head_ids)), np.uint8)
    changed = np.empty((counts[1], 2), np.int64)
    memos = np.empty((layers, counts[2:].max(initial=0), 2), np.int64)
    rows.list_changes(t, nodes, entries, levels, changed, memos, layers)

    result = _deletions(arena, partition)
    result += _row_changes(arena, changed)
    for layer in np.flatnonzero(counts[2:]).tolist():
        result += _memo_changes(arena, memos[layer, : counts[2 + layer]], layer)
    result += _head_changes(arena, nodes[t.nodes["new_head"][nodes]], entries, levels)
    records, keys = t.nodes[nodes], arena.keys_of(nodes).tolist()
    for k in np.flatnonzero(records["new_features"]).tolist():
        result.append((layout.node_key(b"f", keys[k]), arena.features[nodes[k]].tobytes()))
    for k in np.flatnonzero((records["pending"] > 0) != records["indexed"]).tolist():
        result.append((layout.node_key(PENDING_PREFIX, keys[k]), b"\x01" if records["pending"][k] > 0 else None))
    return result


def changes_bytes(arena: Arena, partition: int) -> int:
    """Upper estimate of the bytes of `changes` in a log, keys included."""
    layout = arena.layout
    nodes = dirty_nodes(arena, partition)
    if not len(nodes):
        return 0
    counts = rows.count_changes(arena.t, nodes, len(layout.state_widths))
    key = layout.id_bytes + 6 + _LOGGED_BYTES
    memos = sum(int(n) * (key + memo.itemsize) for n, memo in zip(counts[2:], layout.memo, strict=True))
    heads = len(nodes) * (3 * key + layout.head.itemsize + 4 * layout.feature_width + 1)
    heads += (4 + level_bytes(len(layout.head_ids))) * int(counts[0])
    deleted = int(arena.t.counters[tables.FREED]) * key * (1 + len(layout.memo))
    return int(counts[1]) * (key + layout.row.itemsize) + memos + heads + deleted


def dirty_nodes(arena: Arena, partition: int) -> NDArray[np.int32]:
    """Places of a partition's nodes with changes that were not taken yet."""
    dirty: NDArray[np.int32] = arena.t.dirty[: arena.t.counters[tables.DIRTY_NODES]]
    mine: NDArray[np.int32] = dirty[arena.t.nodes["partition"][dirty] == partition]
    return mine


def _deletions(arena: Arena, partition: int) -> Changes:
    freed = arena.t.freed[: arena.t.counters[tables.FREED]]
    freed = freed[arena.t.nodes["partition"][freed[:, 0]] == partition]
    if not len(freed):
        return []
    owners, numbers = arena.keys_of(freed[:, 0]), freed[:, 1].astype(np.int64)
    keys = arena.layout.row_keys(owners, numbers)
    for layer, width in enumerate(arena.layout.state_widths):
        if width:
            keys += arena.layout.memo_keys(owners, numbers, layer)
    return [(key, None) for key in keys]


def _row_changes(arena: Arena, changed: Array) -> Changes:
    t, slots = arena.t, changed[:, 0]
    values = np.empty(len(slots), arena.layout.row)
    records = t.rows[slots]
    values["interaction"], values["peer"] = arena.interactions_at(slots), arena.peers_at(slots)
    values["time"], values["seq"], values["side"] = records["time"], records["seq"], records["side"]
    values["origin"] = t.origins[slots]
    values["flags"] = records["flags"] & (STUB | LATE)
    values["edge"] = t.payload[slots, : arena.layout.edge_width]
    return pairs(arena.layout.row_keys(arena.keys_of(records["node"]), changed[:, 1]), values)


def _memo_changes(arena: Arena, changed: Array, layer: int) -> Changes:
    t, slots = arena.t, changed[:, 0]
    values = np.empty(len(slots), arena.layout.memo[layer])
    records = t.rows[slots]
    offset = arena.layout.memo_offsets[layer]
    values["seq"], values["version"] = records["seq"], records["version"][:, layer]
    values["vector"] = t.payload[slots, offset : offset + arena.layout.state_widths[layer]]
    return pairs(arena.layout.memo_keys(arena.keys_of(records["node"]), changed[:, 1], layer), values)


def _head_changes(
    arena: Arena, nodes: NDArray[np.int32], entries: NDArray[np.uint32], levels: NDArray[np.uint8]
) -> Changes:
    records = arena.t.nodes[nodes]
    heads = np.empty(len(nodes), arena.layout.head)
    narrow = not entries.size or entries.max() <= np.iinfo(np.uint16).max
    width = 2 if narrow else 4
    heads["seq"], heads["evicted"], heads["count"] = records["seq"], records["evicted"], records["count"]
    heads["entry_bytes"], heads["alert_count"] = width, len(arena.layout.head_ids)
    alerts = heads["alerts"]
    alerts["head"] = arena.layout.head_ids
    alerts["probability"], alerts["newest"] = arena.probability[nodes], arena.newest[nodes]
    alerts["alerted"] = arena.alerted[nodes]
    heads["sums"] = arena.t.sums[nodes]
    fixed = pairs([arena.layout.node_key(b"h", key) for key in arena.keys_of(nodes).tolist()], heads)
    data, said, of_row = entries.astype(f"<u{width}").tobytes(), packed_levels(levels), level_bytes(levels.shape[1])
    ends = [0, *np.cumsum(records["count"]).tolist()]
    return [
        (key, (head or b"") + data[begin * width : end * width] + said[begin * of_row : end * of_row])
        for (key, head), begin, end in zip(fixed, ends[:-1], ends[1:], strict=True)
    ]
