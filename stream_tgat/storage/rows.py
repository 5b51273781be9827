"""What happens to rows: appended, filled with peer embeddings, kept or dropped, loaded and written; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_tgat.compiled import compiled, compiled_with_arrays
from stream_tgat.storage.layout import LATE, PLACEHOLDER
from stream_tgat.storage.pending import add_pending, remove_pending
from stream_tgat.storage.tables import (
    DIRTY,
    DIRTY_PEER_EMBEDDING,
    DONE,
    ENTRY_COST,
    FREE_NUMBER,
    FREED,
    FREED_COST,
    PEER_EMBEDDING_COST,
    RETENTION,
    ROW_COST,
    ROWS_FREE,
    SPARE_PLACEHOLDERS,
    UNKNOWN,
    Array,
    find,
    insert,
    mark_dirty,
    release_block,
)


@compiled
def append_rows(
    t: Any,
    begin: int,
    nodes: Array,
    ids: Array,
    peers: Array,
    side: Array,
    time: Array,
    passed: Array,
    edge: Array,
    origin: Array,
    first_layer: int,
    looks_back: int,
    now: float,
    added: Array,
    behind: Array,
    differs: Array,
) -> int:
    """Half-edges from `begin` on become rows. Returns where it stopped: the end, or the first that needs more room.

    looks_back: the lowest layer that reads a node's past
    added, behind, differs: ?[n], filled, see `engine.Appended`
    """
    for i in range(begin, len(nodes)):
        node = nodes[i]
        position, there = find(t, node, time[i], ids, peers, i, side[i])
        if there:
            slot = t.order[t.nodes[node].block + position]
            if not t.rows[slot].flags & PLACEHOLDER:
                for e in range(edge.shape[1]):
                    differs[i] |= t.payload[slot, e] != edge[i, e]
                continue
            # A placeholder gets its half-edge: from here on it is visible, so queries behind it must look again.
            start = t.nodes[node].block
            for k in range(start + position + 1, start + t.nodes[node].count):
                if t.rows[t.order[k]].pending >= 0:
                    t.pending[t.rows[t.order[k]].pending].watched = UNKNOWN
        else:
            slot = insert(t, node, position, time[i], ids, peers, i, side[i], 0, FREE_NUMBER)
            if slot < 0:
                return i
        behind[i] = _has_been_passed(t, node, time[i], passed[i], looks_back)
        peer_embeddings_dirty = t.rows[slot].flags & (255 ^ (DIRTY_PEER_EMBEDDING - 1))
        t.rows[slot].flags = peer_embeddings_dirty | DIRTY | (LATE if behind[i] else 0)
        for e in range(edge.shape[1]):
            t.payload[slot, e] = edge[i, e]
        t.origins[slot] = origin[i]
        add_pending(t, slot, first_layer, now)
        mark_dirty(t, node, t.costs[ROW_COST] + t.costs[ENTRY_COST])
        added[i] = True
    return len(nodes)


@compiled
def _has_been_passed(t: Any, node: int, time: float, passed: float, looks_back: int) -> bool:
    """Whether a row of the node later than `time` was computed without a row at `time`, or may have been.

    It may have been where the watermark was beyond it, before a crash: what was sent then is not taken back.
    """
    start = t.nodes[node].block
    for k in range(start + t.nodes[node].count - 1, start - 1, -1):
        row = t.rows[t.order[k]]
        if row.time <= time:
            return False
        if row.flags & PLACEHOLDER:
            continue
        if row.flags & DONE or row.time <= passed or t.pending[row.pending].layer > looks_back:
            return True
    return False


@compiled
def fill_peer_embeddings(
    t: Any,
    begin: int,
    nodes: Array,
    ids: Array,
    peers: Array,
    side: Array,
    time: Array,
    version: Array,
    vectors: Array,
    layer: int,
    offset: int,
    counted: Array,
    placeholders: Array,
) -> int:
    """Peer embeddings from `begin` on enter their rows, or make placeholders. Returns where it stopped, as
    `append_rows`.

    counted, placeholders: ?[n], filled: which of them are new, and which have made a placeholder
    """
    for i in range(begin, len(nodes)):
        node = nodes[i]
        position, there = find(t, node, time[i], ids, peers, i, side[i])
        if there:
            slot = t.order[t.nodes[node].block + position]
        else:
            slot = insert(t, node, position, time[i], ids, peers, i, side[i], PLACEHOLDER | DIRTY, FREE_NUMBER)
            if slot < 0:
                return i
            placeholders[i] = True
            mark_dirty(t, node, t.costs[ROW_COST] + t.costs[ENTRY_COST])
            for e in range(t.payload.shape[1]):
                t.payload[slot, e] = 0
        # Recomputation differs in the last bits: of one version the first peer embedding stays.
        if version[i] <= t.rows[slot].version[layer]:
            continue
        t.rows[slot].version[layer] = version[i]
        for e in range(vectors.shape[1]):
            t.payload[slot, offset + e] = vectors[i, e]
        if not t.rows[slot].flags & (DIRTY_PEER_EMBEDDING << layer):
            t.rows[slot].flags |= DIRTY_PEER_EMBEDDING << layer
            mark_dirty(t, node, t.costs[PEER_EMBEDDING_COST + layer])
        counted[i] = True
    return len(nodes)


@compiled_with_arrays
def retain(t: Any, nodes: Array, candidates: int, never_deleted: int) -> None:
    """Drop the rows that no query can reach any more.

    A row stays while it is among the C newest strictly before a time that can still be asked: a pending row's, the
    newest row's, or later than all. Rows not older than a pending one stay too: its degree is still to be
    counted.   nodes: each may be named any number of times
    """
    t.counters[RETENTION] += 1
    for node in nodes:
        start, count = t.nodes[node].block, t.nodes[node].count
        if count <= candidates or t.nodes[node].retained_at == t.counters[RETENTION]:
            continue
        t.nodes[node].retained_at = t.counters[RETENTION]
        keep = np.zeros(count, np.uint8)
        oldest = _oldest_pending(t, node)
        seen, seen_at_ask, spare = 0, 0, 0
        k = count - 1
        while k >= 0:
            time, asked = t.rows[t.order[start + k]].time, seen == 0
            visible = False
            while k >= 0 and t.rows[t.order[start + k]].time == time:
                row = t.rows[t.order[start + k]]
                placeholder = row.flags & PLACEHOLDER != 0
                keep[k] = seen - seen_at_ask < candidates or time >= oldest
                if placeholder and not keep[k] and spare < SPARE_PLACEHOLDERS:
                    keep[k] = 1
                    spare += 1
                if not placeholder:
                    seen += 1
                    visible = True
                    asked = asked or row.pending >= 0
                k -= 1
            if asked and visible:
                seen_at_ask = seen
        _compact(t, node, keep, never_deleted)


@compiled_with_arrays
def finish(t: Any, slots: Array, nodes: Array, candidates: int, never_deleted: int) -> None:
    """The embeddings of the rows in these slots have left; drop what no query can reach any more of their nodes."""
    _finish(t, slots)
    retain(t, nodes, candidates, never_deleted)


@compiled
def _finish(t: Any, slots: Array) -> None:
    for slot in slots:
        remove_pending(t, t.rows[slot].pending)
        t.rows[slot].flags |= DONE
        t.nodes[t.rows[slot].node].new_record = True
        mark_dirty(t, t.rows[slot].node)


@compiled
def _oldest_pending(t: Any, node: int) -> float:
    start = t.nodes[node].block
    if t.nodes[node].pending > 0:
        for k in range(t.nodes[node].count):
            if t.rows[t.order[start + k]].pending >= 0:
                return float(t.rows[t.order[start + k]].time)
    return np.inf


@compiled
def _compact(t: Any, node: int, keep: Array, never_deleted: int) -> None:
    start, kept = t.nodes[node].block, 0
    for k in range(len(keep)):
        slot, number = t.order[start + k], t.number[start + k]
        if keep[k]:
            t.order[start + kept], t.number[start + kept] = slot, number
            kept += 1
            continue
        if not t.rows[slot].flags & PLACEHOLDER:
            t.nodes[node].evicted += 1
            if len(t.decay_s):
                _sum_up(t, node, slot)
        never_written = t.rows[slot].flags & (PLACEHOLDER | DIRTY) == PLACEHOLDER | DIRTY
        if number >= never_deleted and not never_written:
            t.freed[t.counters[FREED], 0], t.freed[t.counters[FREED], 1] = node, number
            t.counters[FREED] += 1
            t.partitions[t.nodes[node].partition].freed += 1
            t.partitions[t.nodes[node].partition].bytes += t.costs[FREED_COST]
        _free_slot(t, slot)
    if kept < len(keep):
        t.nodes[node].count, t.nodes[node].gaps = kept, 0
        t.nodes[node].new_record = True
        mark_dirty(t, node)


@compiled
def _sum_up(t: Any, node: int, slot: int) -> None:
    """A row that is dropped goes on in the decayed sums of its node, as of the newest row that has."""
    time, newest = t.rows[slot].time, t.sums[node, 0]
    now = max(time, newest)
    width = (t.sums.shape[1] - 1) // len(t.decay_s)
    for c in range(len(t.decay_s)):
        kept, added = np.exp((newest - now) / t.decay_s[c]), np.exp((time - now) / t.decay_s[c])
        at = 1 + c * width
        t.sums[node, at] = kept * t.sums[node, at] + added
        for e in range(width - 1):
            t.sums[node, at + 1 + e] = kept * t.sums[node, at + 1 + e] + added * t.payload[slot, e]
    t.sums[node, 0] = now


@compiled
def _free_slot(t: Any, slot: int) -> None:
    t.rows[slot].node = -1
    t.free[t.counters[ROWS_FREE]] = slot
    t.counters[ROWS_FREE] += 1


@compiled
def unload(t: Any, nodes: Array) -> None:
    """Give back all that nodes hold in memory, pending rows included."""
    for node in nodes:
        start = t.nodes[node].block
        for k in range(t.nodes[node].count):
            slot = t.order[start + k]
            if t.rows[slot].pending >= 0:
                remove_pending(t, t.rows[slot].pending)
            _free_slot(t, slot)
        release_block(t, node)
        t.nodes[node].count = t.nodes[node].top = 0
        t.nodes[node].resident = False


@compiled
def load_rows(
    t: Any,
    begin: int,
    nodes: Array,
    numbers: Array,
    ids: Array,
    peers: Array,
    time: Array,
    seq: Array,
    side: Array,
    flags: Array,
    levels: Array,
    edge: Array,
    origin: Array,
    first_layer: int,
    now: float,
) -> int:
    """Stored rows from `begin` on, a node's in order, take their places. Returns where it stopped, as `append_rows`."""
    for i in range(begin, len(nodes)):
        node = nodes[i]
        slot = insert(t, node, t.nodes[node].count, time[i], ids, peers, i, side[i], flags[i], numbers[i])
        if slot < 0:
            return i
        t.nodes[node].seq -= 1
        t.nodes[node].new_record = False
        t.rows[slot].seq = seq[i]
        for e in range(t.payload.shape[1]):
            t.payload[slot, e] = edge[i, e] if e < edge.shape[1] else 0
        t.origins[slot] = origin[i]
        for head in range(levels.shape[1]):
            t.levels[slot, head] = levels[i, head]
        if not flags[i] & (PLACEHOLDER | DONE):
            add_pending(t, slot, first_layer, now)
    return len(nodes)


@compiled
def load_peer_embeddings(
    t: Any, nodes: Array, positions: Array, seq: Array, version: Array, vectors: Array, layer: int, offset: int
) -> None:
    """Stored peer embeddings enter the rows at `positions` of their nodes' orders, unless they are an earlier row's."""
    for i in range(len(nodes)):
        slot = t.order[t.nodes[nodes[i]].block + positions[i]]
        if t.rows[slot].seq != seq[i]:
            continue
        t.rows[slot].version[layer] = version[i]
        for e in range(vectors.shape[1]):
            t.payload[slot, offset + e] = vectors[i, e]


@compiled
def mark_features(t: Any, nodes: Array) -> None:
    """Own features of these nodes are new."""
    for node in nodes:
        t.nodes[node].new_features = True
        mark_dirty(t, node)
