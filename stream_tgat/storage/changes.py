"""Changes of the pool as keys and values for a store.

One loop measures them, one writes all of them into one buffer, which is then cut: what a change costs beyond its bytes
is two slices. Their form is `Layout`'s, which reads them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.compiled import compiled, compiled_with_arrays
from stream_tgat.rocks import Change
from stream_tgat.storage.layout import LATE, PLACEHOLDER
from stream_tgat.storage.pool import Pool
from stream_tgat.storage.tables import (
    DIRTY,
    DIRTY_PEER_EMBEDDING,
    DONE,
    FREED,
    Array,
    put_words,
)

_LASTING: Final = PLACEHOLDER | LATE | DONE
_NODE, _ROW, _PEER_EMBEDDING, _FEATURES, _MARK = b"hrmfp"


def take_changes(pool: Pool, partition: int) -> tuple[list[Change], NDArray[np.int32]]:
    """Keys and values of a partition that differ from the store, deletions first; and the nodes whose they are, [n].

    They do not differ any more: they are on their way to the store.
    """
    t, layout = pool.t, pool.layout
    if not t.partitions["dirty"][partition]:
        return [], np.empty(0, np.int32)
    data, ends, nodes = _take(
        t,
        partition,
        np.array([*layout.peer_embedding_offsets, layout.payload_width]),
        layout.head_ids,
        pool.probability,
        pool.newest,
        pool.alerted,
        pool.features,
    )
    entries, of_keys, of_values = data.tobytes(), ends[:, 0].tolist(), ends[:, 1].tolist()
    return [
        (entries[begin:of_key], entries[of_key:end] if end > of_key else None)
        for begin, of_key, end in zip([0, *of_values], of_keys, of_values, strict=False)
    ], nodes


@compiled_with_arrays
def _take(
    t: Any,
    partition: int,
    peer_embedding_ends: Array,
    head_ids: Array,
    probability: Array,
    newest: Array,
    alerted: Array,
    features: Array,
) -> tuple[Array, Array, Array]:
    """The bytes of all changes u1[bytes], where the key and the value of each end i8[changes, 2], and their nodes."""
    nodes = np.empty(t.partitions[partition].dirty, np.int32)
    count, size = _measure(t, partition, peer_embedding_ends, features.shape[1], nodes)
    data, ends = np.empty(size, np.uint8), np.empty((count, 2), np.int64)
    _write(t, partition, nodes, peer_embedding_ends, head_ids, probability, newest, alerted, features, data, ends)
    clear_changes(t, partition, count > 0)
    return data, ends, nodes


@compiled
def _entry_bytes(t: Any, node: int) -> int:
    """Bytes of each entry in the record of a node, number · 2 + done: as few as hold them all."""
    start = t.nodes[node].block
    for k in range(start, start + t.nodes[node].count):
        if t.number[k] * 2 + 1 > 65535:
            return 4
    return 2


@compiled
def _record_start(t: Any) -> Any:
    """Bytes of a node's record before the entries."""
    return 19 + 28 * t.levels.shape[1] + 8 * t.sums.shape[1]


@compiled
def _measure(t: Any, partition: int, peer_embedding_ends: Array, feature_width: int, nodes: Array) -> tuple[int, int]:
    """How many changes a partition has, and their bytes; nodes: i4[dirty], filled with those that have some."""
    layers, edge_width, id_bytes = len(peer_embedding_ends) - 1, peer_embedding_ends[0], 8 * t.ids.shape[1]
    node_key, row_key = 1 + id_bytes, 5 + id_bytes
    of_row = row_key + 2 * id_bytes + 22 + 4 * edge_width
    count, size = 0, 0
    if t.partitions[partition].freed > 0:
        for f in range(t.counters[FREED]):
            if t.nodes[t.freed[f, 0]].partition != partition:
                continue
            count, size = count + 1, size + row_key
            for layer in range(layers):
                if peer_embedding_ends[layer + 1] > peer_embedding_ends[layer]:
                    count, size = count + 1, size + row_key + 1
    node = t.partitions[partition].first_dirty
    for n in range(len(nodes)):
        nodes[n] = node
        record = t.nodes[node]
        for k in range(record.block, record.block + record.count):
            flags = t.rows[t.order[k]].flags
            if flags & DIRTY:
                count, size = count + 1, size + of_row
            for layer in range(layers):
                if flags & (DIRTY_PEER_EMBEDDING << layer):
                    count += 1
                    size += row_key + 1 + 12 + 4 * (peer_embedding_ends[layer + 1] - peer_embedding_ends[layer])
        if record.new_record:
            count += 1
            of_entry = _entry_bytes(t, node) + (2 * t.levels.shape[1] + 7) // 8
            size += node_key + _record_start(t) + record.count * of_entry
        if record.new_features:
            count, size = count + 1, size + node_key + 4 * feature_width
        if record.indexed != (record.pending > 0):
            count, size = count + 1, size + node_key + (record.pending > 0)
        node = record.next_dirty
    return count, size


@compiled
def _put(data: Array, at: int, value: Any, width: int) -> int:
    """The lowest `width` bytes of a whole number, lowest first; where it ends."""
    to = data[at : at + width]
    for b in range(width):
        to[b] = (value >> (8 * b)) & 255
    return at + width


@compiled
def _put_float(data: Array, at: int, value: float) -> int:
    return _put(data, at, np.float64(value).view(np.int64), 8)


@compiled
def _put_bytes(data: Array, at: int, table: Array, row: int, begin: int, end: int) -> int:
    """Bytes `begin` to `end` of a row of u1[n, width]."""
    # As views, whose places are counted from nought: the loop becomes a copy of a block.
    values, to = table[row, begin:end], data[at : at + end - begin]
    for b in range(to.shape[0]):
        to[b] = values[b]
    return at + end - begin


@compiled
def _put_key(t: Any, data: Array, at: int, kind: int, node: int, number: Any, layer: int) -> int:
    """The key of a node, of one of its rows, or of a row's peer embedding; number, layer: -1 where there is none."""
    data[at] = kind
    at = put_words(data, at + 1, t.keys, node)
    if number >= 0:
        for b in range(4):
            data[at + b] = (number >> (24 - 8 * b)) & 255
        at += 4
    if layer >= 0:
        data[at] = layer
        at += 1
    return at


@compiled
def _put_levels(t: Any, data: Array, at: int, slot: int) -> Any:
    """What each prediction head said of a row: the high bit of each, then the low bit of each."""
    heads = t.levels.shape[1]
    width = (2 * heads + 7) // 8
    for b in range(width):
        data[at + b] = 0
    for head in range(heads):
        level = t.levels[slot, head]
        data[at + head // 8] |= (level >> 1) << (7 - head % 8)
        low = heads + head
        data[at + low // 8] |= (level & 1) << (7 - low % 8)
    return at + width


@compiled
def _put_node(
    t: Any, data: Array, at: int, node: int, head_ids: Array, probability: Array, newest: Array, alerted: Array
) -> int:
    record, width = t.nodes[node], _entry_bytes(t, node)
    at = _put(data, at, np.int64(record.seq), 4)
    at = _put(data, at, record.evicted, 8)
    at = _put(data, at, np.int64(record.count), 4)
    at = _put(data, at, width, 1)
    at = _put(data, at, len(head_ids), 2)
    for head in range(len(head_ids)):
        at = _put(data, at, np.int64(head_ids[head]), 4)
        at = _put_float(data, at, probability[node, head])
        at = _put_float(data, at, newest[node, head])
        at = _put_float(data, at, alerted[node, head])
    for c in range(t.sums.shape[1]):
        at = _put_float(data, at, t.sums[node, c])
    for k in range(record.block, record.block + record.count):
        done = t.rows[t.order[k]].flags & DONE != 0
        at = _put(data, at, np.int64(t.number[k]) * 2 + done, width)
    for k in range(record.block, record.block + record.count):
        at = _put_levels(t, data, at, t.order[k])
    return at


@compiled
def _write(
    t: Any,
    partition: int,
    nodes: Array,
    peer_embedding_ends: Array,
    head_ids: Array,
    probability: Array,
    newest: Array,
    alerted: Array,
    features: Array,
    data: Array,
    ends: Array,
) -> None:
    """What `_measure` measured. peer_embedding_ends: i8[L + 1], where edge features and the peer embeddings end in a
    row's payload

    data: u1[bytes], filled   ends: i8[changes, 2], filled: where the key and the value of each end; a value without
    bytes is none
    """
    layers = len(peer_embedding_ends) - 1
    payload, own = t.payload.view(np.uint8), features.view(np.uint8)
    at, e = 0, 0
    if t.partitions[partition].freed > 0:
        for f in range(t.counters[FREED]):
            node, number = t.freed[f, 0], np.int64(t.freed[f, 1])
            if t.nodes[node].partition != partition:
                continue
            at = _put_key(t, data, at, _ROW, node, number, -1)
            ends[e, 0] = ends[e, 1] = at
            e += 1
            for layer in range(layers):
                if peer_embedding_ends[layer + 1] > peer_embedding_ends[layer]:
                    at = _put_key(t, data, at, _PEER_EMBEDDING, node, number, layer)
                    ends[e, 0] = ends[e, 1] = at
                    e += 1
    for node in nodes:
        record = t.nodes[node]
        for k in range(record.block, record.block + record.count):
            slot, number = t.order[k], np.int64(t.number[k])
            row = t.rows[slot]
            if row.flags & DIRTY:
                ends[e, 0] = at = _put_key(t, data, at, _ROW, node, number, -1)
                at = put_words(data, at, t.ids, slot)
                at = put_words(data, at, t.peers, slot)
                at = _put_float(data, at, row.time)
                at = _put(data, at, t.origins[slot], 8)
                at = _put(data, at, np.int64(row.seq), 4)
                at = _put(data, at, np.int64(row.side), 1)
                at = _put(data, at, np.int64(row.flags & (PLACEHOLDER | LATE)), 1)
                ends[e, 1] = at = _put_bytes(data, at, payload, slot, 0, 4 * peer_embedding_ends[0])
                e += 1
            for layer in range(layers):
                if row.flags & (DIRTY_PEER_EMBEDDING << layer):
                    ends[e, 0] = at = _put_key(t, data, at, _PEER_EMBEDDING, node, number, layer)
                    at = _put(data, at, np.int64(row.seq), 4)
                    at = _put(data, at, row.version[layer], 8)
                    begin, end = 4 * peer_embedding_ends[layer], 4 * peer_embedding_ends[layer + 1]
                    ends[e, 1] = at = _put_bytes(data, at, payload, slot, begin, end)
                    e += 1
        if record.new_record:
            ends[e, 0] = at = _put_key(t, data, at, _NODE, node, -1, -1)
            ends[e, 1] = at = _put_node(t, data, at, node, head_ids, probability, newest, alerted)
            e += 1
        if record.new_features:
            ends[e, 0] = at = _put_key(t, data, at, _FEATURES, node, -1, -1)
            ends[e, 1] = at = _put_bytes(data, at, own, node, 0, own.shape[1])
            e += 1
        if record.indexed != (record.pending > 0):
            ends[e, 0] = at = _put_key(t, data, at, _MARK, node, -1, -1)
            if record.pending > 0:
                at = _put(data, at, 1, 1)
            ends[e, 1] = at
            e += 1


@compiled
def clear_changes(t: Any, partition: int, taken: bool) -> None:
    """Nothing of this partition is to be written any more; taken: it is on its way to the store."""
    mine = t.partitions[partition]
    node = mine.first_dirty
    for _ in range(mine.dirty):
        start = t.nodes[node].block
        for k in range(start, start + t.nodes[node].count):
            t.rows[t.order[k]].flags &= _LASTING
        t.nodes[node].dirty = t.nodes[node].new_record = t.nodes[node].new_features = False
        t.nodes[node].indexed = t.nodes[node].pending > 0
        t.nodes[node].in_flight += taken
        node = t.nodes[node].next_dirty
    if mine.freed > 0:
        kept = 0
        for f in range(t.counters[FREED]):
            if t.nodes[t.freed[f, 0]].partition != partition:
                t.freed[kept, 0], t.freed[kept, 1] = t.freed[f, 0], t.freed[f, 1]
                kept += 1
        t.counters[FREED] = kept
    mine.first_dirty, mine.dirty, mine.freed, mine.bytes = -1, 0, 0, 0
