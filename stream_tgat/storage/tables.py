"""The arrays of the arena and what is done to them row by row, compiled.

One pool of row slots serves all partitions of a worker. A node's rows are listed in a *block*: a run of `order` (slots
in order, placeholders among them) and of `number` (their numbers in the store). Blocks come in sizes
4, 8, 16 …, so that a node with one row costs little and one with thousands pending still has one run.

An interaction is its (time, id, user, item), and rows are in this order everywhere; of a node that met itself, the
user's row comes first. Of a row, the node and its peer are user and item, or item and user, as its side says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.compiled import compiled, compiled_with_arrays
from stream_tgat.graph import hashing
from stream_tgat.storage.layout import MAX_LAYERS, Layout, level_bytes

DONE: Final = 4
#: What a prediction head said of a row, by its threshold: nothing yet (or the row is an item's), below, above, above
#: and alerted.
BELOW: Final = 1
ABOVE: Final = 2
ALERTED: Final = 3
DIRTY: Final = 8
DIRTY_PEER_EMBEDDING: Final = 16  # << layer

#: One cache line: a neighbour costs one miss for this and the payload's own.
ROW = np.dtype(
    [
        ("time", "f8"),
        ("version", "i8", (MAX_LAYERS,)),
        ("hash", "u8"),
        ("seq", "u4"),
        ("node", "i4"),
        ("pending", "i4"),
        ("flags", "u1"),
        ("side", "u1"),
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("block", "i8"),
        ("evicted", "i8"),
        ("used_at", "i8"),
        ("retained_at", "i8"),
        ("seq", "u4"),
        ("capacity", "i4"),
        ("count", "i4"),
        ("pending", "i4"),
        ("partition", "i4"),
        ("in_flight", "i4"),
        ("next_dirty", "i4"),
        ("top", "i4"),  # above the numbers of all its rows
        ("gaps", "i4"),  # numbers below `top` that no row has, listed behind those of the rows, the lowest first
        ("resident", "?"),
        ("dirty", "?"),
        ("new_record", "?"),
        ("indexed", "?"),
        ("new_features", "?"),
    ],
    align=True,
)
PENDING = np.dtype(
    [
        ("time", "f8"),
        ("received_at", "f8"),
        ("version", "i8"),
        ("slot", "i4"),
        ("node", "i4"),
        ("partition", "i4"),
        ("watched", "i4"),
        ("layer", "i4"),
        ("leaving", "i8"),
    ],
    align=True,
)

#: A row whose time no watermark has reached yet.
EARLY = np.dtype([("time", "f8"), ("slot", "i4")], align=True)

#: What of a partition is not in its store: nodes, as a list linked by `next_dirty` (-1 ends it) and its length; keys to
#: delete; and the bytes of all that at most.
PARTITION = np.dtype([("first_dirty", "i4"), ("dirty", "i4"), ("freed", "i4"), ("bytes", "i8")], align=True)

ROWS_USED: Final = 0  # slots ever taken; the rest has never been touched
ROWS_FREE: Final = 1  # entries of `free`
BLOCKS_USED: Final = 2
PENDING_COUNT: Final = 3
FREED: Final = 4
PASS: Final = 5
RETENTION: Final = 6
DUE_COUNT: Final = 7  # of the pending places, the first so many
COUNTERS: Final = 8

#: Places in `costs`: the bytes of a change at most.
NODE_COST: Final = 0  # a node's record without entries, features and mark
ENTRY_COST: Final = 1
ROW_COST: Final = 2
FREED_COST: Final = 3
PEER_EMBEDDING_COST: Final = 4  # + layer
COSTS: Final = 4 + MAX_LAYERS
#: What a log adds to a change beside key and value, at most.
_LOGGED_BYTES: Final = 24

SMALLEST_BLOCK: Final = 4
#: Peer embeddings whose half-edge has not come and that no query would reach: a node keeps the newest few, for
#: half-edges that come late and all at once; more would be peer embeddings of rows that are long gone.
SPARE_PLACEHOLDERS: Final = 4

#: In `watched`, where no row is: whether peer embeddings are missing is to be looked up; none is.
UNKNOWN: Final = -1
COMPLETE: Final = -2

OUT_OF_ROWS: Final = -1
OUT_OF_BLOCKS: Final = -2
#: Where a row's number is to be chosen.
FREE_NUMBER: Final = -1

Array = NDArray[Any]

mix: Callable[[Any], Any] = compiled(hashing.mix)


class Tables(NamedTuple):
    """All arrays. S row slots, N node places, P pending places, W payload floats, I words of an id."""

    payload: Array  # f4[S, W]: edge ‖ peer embedding 0 ‖ peer embedding 1 …
    rows: Array  # ROW[S]
    ids: Array  # u8[S, I], interaction ids as big-endian words, so that comparing numbers compares bytes
    peers: Array  # u8[S, I], the other ends' keys, likewise
    levels: Array  # u1[S, heads], what each prediction head has said: 0, BELOW, ABOVE or ALERTED
    origins: Array  # i8[S], where half-edges came from, as whoever appends them numbers it; -1 where unknown
    free: Array  # i4[S], slots given back
    nodes: Array  # NODE[N]
    keys: Array  # u8[N, I], keys of nodes, as big-endian words
    order: Array  # i4[X]
    number: Array  # i4[X]
    empty_blocks: Array  # i8[32], first unused block of each size; linked through `order`
    pending: Array  # PENDING[P], rows that are due, then early ones
    early: Array  # EARLY[P], heap of the early rows, the first in time on top
    states: Array  # f4[P, Σw], own h^(0) … h^(L-1) of pending rows
    partitions: Array  # PARTITION[partitions]
    costs: Array  # i8[COSTS]
    sums: Array  # f8[N, S], decayed sums of dropped rows: when the newest was, then [1 ‖ edge] for each time constant
    decay_s: Array  # f8[constants]
    freed: Array  # i4[Y, 2], (node, number) of rows whose keys must be deleted
    counters: Array  # i8[COUNTERS]


def change_costs(layout: Layout) -> NDArray[np.int64]:
    """Bytes of each kind of change in a log at most, keys included: i8[COSTS], the places are those above."""
    costs = np.zeros(COSTS, np.int64)
    key = layout.id_bytes + 6 + _LOGGED_BYTES
    costs[NODE_COST] = 3 * key + layout.node_record.itemsize + 4 * layout.feature_width + 1
    costs[ENTRY_COST] = 4 + level_bytes(len(layout.head_ids))
    costs[ROW_COST] = key + layout.row.itemsize
    costs[FREED_COST] = key * (1 + len(layout.peer_embedding))
    for layer, peer_embedding in enumerate(layout.peer_embedding):
        costs[PEER_EMBEDDING_COST + layer] = key + peer_embedding.itemsize
    return costs


def plain(values: NDArray[Any], kind: Any) -> Array:
    """`values` contiguous, writeable and of one type: compiled loops are compiled again for any other sort of array."""
    if values.dtype == kind and values.flags.c_contiguous and values.flags.writeable:
        return values
    return np.array(values, kind, order="C")


@compiled
def _order_of(one: Array, i: int, other: Array, j: int) -> int:
    """Order of the words one[i] and other[j]: -1, 0 or 1."""
    for word in range(one.shape[1]):
        if one[i, word] != other[j, word]:
            return -1 if one[i, word] < other[j, word] else 1
    return 0


@compiled
def compare(t: Any, slot: int, node: int, time: float, ids: Array, peers: Array, i: int, side: int) -> int:
    """Order of a row against another, (time, ids[i], side, peers[i]) of `node`: -1 before, 0 same, 1 after."""
    row = t.rows[slot]
    if row.time != time:
        return -1 if row.time < time else 1
    order = _order_of(t.ids, slot, ids, i)
    if order != 0:
        return order
    # Users first, then items.
    if row.side == side:
        of_nodes = 0 if row.node == node else _order_of(t.keys, row.node, t.keys, node)
        of_peers = _order_of(t.peers, slot, peers, i)
        first, second = (of_nodes, of_peers) if side == 0 else (of_peers, of_nodes)
    else:
        own, other = _order_of(t.keys, row.node, peers, i), _order_of(t.peers, slot, t.keys, node)
        first, second = (own, other) if row.side == 0 else (other, own)
    if first != 0:
        return first
    if second != 0 or row.side == side:
        return second
    return -1 if row.side < side else 1


@compiled
def find(t: Any, node: int, time: float, ids: Array, peers: Array, i: int, side: int) -> tuple[int, bool]:
    """Where the row (time, ids[i], side, peers[i]) of a node is or belongs, and whether it is there."""
    start, low, high = t.nodes[node].block, 0, t.nodes[node].count
    if high > 0 and compare(t, t.order[start + high - 1], node, time, ids, peers, i, side) < 0:
        return high, False
    while low < high:
        middle = (low + high) // 2
        if compare(t, t.order[start + middle], node, time, ids, peers, i, side) < 0:
            low = middle + 1
        else:
            high = middle
    there = low < t.nodes[node].count and compare(t, t.order[start + low], node, time, ids, peers, i, side) == 0
    return low, there


@compiled
def first_not_before(t: Any, node: int, time: float) -> int:
    """Position of the first row of a node whose time is not before `time`."""
    start, low, high = t.nodes[node].block, 0, t.nodes[node].count
    while low < high:
        middle = (low + high) // 2
        if t.rows[t.order[start + middle]].time < time:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _block_class(capacity: int) -> int:
    size_class = 0
    while SMALLEST_BLOCK << size_class < capacity:
        size_class += 1
    return size_class


@compiled
def reserve_block(t: Any, node: int, capacity: int) -> bool:
    """Give a node a block of at least `capacity`, moving what it has; False where `order` is full."""
    if t.nodes[node].capacity >= capacity:
        return True
    size_class = _block_class(capacity)
    size = SMALLEST_BLOCK << size_class
    block = t.empty_blocks[size_class]
    if block >= 0:
        t.empty_blocks[size_class] = t.order[block]
    else:
        block = t.counters[BLOCKS_USED]
        if block + size > t.order.shape[0]:
            return False
        t.counters[BLOCKS_USED] = block + size
    old = t.nodes[node].block
    for k in range(t.nodes[node].count):
        t.order[block + k] = t.order[old + k]
        t.number[block + k] = t.number[old + k]
    release_block(t, node)
    t.nodes[node].block = block
    t.nodes[node].capacity = size
    return True


@compiled
def release_block(t: Any, node: int) -> None:
    """Give a node's block back."""
    if t.nodes[node].capacity > 0:
        size_class = _block_class(t.nodes[node].capacity)
        t.order[t.nodes[node].block] = t.empty_blocks[size_class]
        t.empty_blocks[size_class] = t.nodes[node].block
        t.nodes[node].capacity = 0
        t.nodes[node].gaps = 0


@compiled
def put_words(data: Array, at: int, words: Array, row: int) -> int:
    """A byte string from its big-endian words u8[n, I] into bytes u1[…] from `at` on; where it ends."""
    for word in range(words.shape[1]):
        value, to = words[row, word], data[at : at + 8]
        for b in range(8):
            to[b] = (value >> np.uint64(56 - 8 * b)) & np.uint64(255)
        at += 8
    return at


@compiled
def mark_dirty(t: Any, node: int, cost: int = 0) -> None:
    """Something of the node must be written; cost: the bytes of it, beside those of any change of a node."""
    mine = t.partitions[t.nodes[node].partition]
    mine.bytes += cost
    if not t.nodes[node].dirty:
        t.nodes[node].dirty = True
        t.nodes[node].next_dirty = mine.first_dirty
        mine.first_dirty = node
        mine.dirty += 1
        mine.bytes += t.costs[NODE_COST] + t.nodes[node].count * t.costs[ENTRY_COST]


@compiled
def take_slot(t: Any) -> int:
    """A row slot that nothing uses, or OUT_OF_ROWS."""
    if t.counters[ROWS_FREE] > 0:
        t.counters[ROWS_FREE] -= 1
        return int(t.free[t.counters[ROWS_FREE]])
    if t.counters[ROWS_USED] == t.rows.shape[0]:
        return OUT_OF_ROWS
    t.counters[ROWS_USED] += 1
    return int(t.counters[ROWS_USED]) - 1


@compiled
def _lowest_number(t: Any, node: int) -> int:
    """The lowest row number that the node does not use: low numbers are written again rather than deleted.

    It has a place for one more row. Gaps are looked for when some have come, and then all that there is room for: a
    node with thousands of rows pending must not look through them for each that is added.
    """
    mine = t.nodes[node]
    if mine.gaps == 0 and mine.top > mine.count:
        _find_gaps(t, node)
    if mine.gaps > 0:
        mine.gaps -= 1
        return int(t.number[mine.block + mine.count])
    mine.top += 1
    return int(mine.top) - 1


@compiled_with_arrays
def _find_gaps(t: Any, node: int) -> None:
    mine = t.nodes[node]
    start, end, room = mine.block, mine.block + mine.count, mine.capacity - mine.count
    top = 0
    for k in range(start, end):
        top = max(top, t.number[k] + 1)
    used = np.zeros(top, np.bool_)
    for k in range(start, end):
        used[t.number[k]] = True
    found = 0
    for number in range(top):
        if found == room:
            break
        if not used[number]:
            t.number[end + found] = number
            found += 1
    mine.top, mine.gaps = top, found


@compiled
def hash_time(time: float) -> Any:
    """`graph.hashing.hash_times` of one time."""
    return mix(np.float64(time).view(np.uint64))


@compiled
def insert(
    t: Any, node: int, position: int, time: float, ids: Array, peers: Array, i: int, side: int, flags: int, number: int
) -> int:
    """A new row at `position` of a node's order, with empty payload. Returns its slot, or why there is none.

    number: of the row in the store, FREE_NUMBER for one that is not used
    """
    count = t.nodes[node].count
    if not reserve_block(t, node, count + 1):
        return OUT_OF_BLOCKS
    slot = take_slot(t)
    if slot < 0:
        return OUT_OF_ROWS
    start = t.nodes[node].block
    if number == FREE_NUMBER:
        number = _lowest_number(t, node)
    else:
        t.nodes[node].top, t.nodes[node].gaps = max(t.nodes[node].top, number + 1), 0
    for k in range(start + count, start + position, -1):
        t.order[k] = t.order[k - 1]
        t.number[k] = t.number[k - 1]
        # A pending row behind it may have been waiting for a neighbour that the new row displaces.
        if t.rows[t.order[k]].pending >= 0:
            t.pending[t.rows[t.order[k]].pending].watched = UNKNOWN
    t.order[start + position] = slot
    t.number[start + position] = number
    t.nodes[node].count = count + 1
    t.nodes[node].new_record = True
    row = t.rows[slot]
    row.time = time
    row.hash = hash_time(time)
    row.seq = t.nodes[node].seq
    row.node = node
    row.pending = -1
    row.flags = flags
    row.side = side
    t.origins[slot] = -1
    for head in range(t.levels.shape[1]):
        t.levels[slot, head] = 0
    for layer in range(MAX_LAYERS):
        row.version[layer] = -1
    t.nodes[node].seq += 1
    for word in range(ids.shape[1]):
        t.ids[slot, word] = ids[i, word]
        t.peers[slot, word] = peers[i, word]
    return slot
