"""Which pending rows are ready, in what order they go, and which past interactions they see; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_tgat.compiled import compiled, compiled_with_arrays
from stream_tgat.storage.layout import LATE, PLACEHOLDER
from stream_tgat.storage.tables import (
    COMPLETE,
    DUE_COUNT,
    PASS,
    PENDING_COUNT,
    UNKNOWN,
    Array,
    compare,
    find,
    first_not_before,
    hash_time,
    mix,
    put_words,
)


@compiled
def sample(t: Any, node: int, time: float, candidates: int, uniform: bool, ranks: Array, slots: Array) -> int:
    """The slots of the K past interactions that a query of `node` at `time` sees; returns how many there are.

    The K newest strictly before `time`; uniform: those K of the C newest that rank lowest, as `graph.sampling` has it.
    ranks: u8[K], to work with   slots: i4[K], filled
    """
    neighbours = len(slots)
    k = t.nodes[node].block + first_not_before(t, node, time) - 1
    start, found = t.nodes[node].block, 0
    if not uniform:
        while k >= start and found < neighbours:
            if not t.rows[t.order[k]].flags & PLACEHOLDER:
                slots[found] = t.order[k]
                found += 1
            k -= 1
        return found
    query = hash_time(time)
    seen, last, newer = 0, time, 0
    while k >= start and seen < candidates:
        slot = t.order[k]
        row = t.rows[slot]
        k -= 1
        if row.flags & PLACEHOLDER:
            continue
        seen += 1
        newer = newer + 1 if row.time == last else 0  # rows of the same time
        last = row.time
        rank = mix(query ^ (row.hash + np.uint64(newer)))
        place = min(found, neighbours)
        while place > 0 and rank < ranks[place - 1]:
            if place < neighbours:
                ranks[place], slots[place] = ranks[place - 1], slots[place - 1]
            place -= 1
        if place < neighbours:
            ranks[place], slots[place] = rank, slot
            found = min(found + 1, neighbours)
    return found


@compiled_with_arrays
def choose(
    t: Any,
    layer: int,
    watermarks: Array,
    limit: int,
    waited_since: float,
    needs_peer_embeddings: bool,
    leaves: bool,
    neighbours: int,
    candidates: int,
    uniform: bool,
) -> Array:
    """Up to `limit` pending places that compute `layer` now, in the order of their rows.

    watermarks: f8[partitions], −inf where a partition does not compute now
    waited_since: rows received before this go on without the peer embeddings that have not come
    needs_peer_embeddings: whether the layer reads peer embeddings   leaves: a row goes only when all rows of its node
    before it have gone, or go with it
    """
    places, other = np.empty(t.counters[DUE_COUNT], np.int64), np.empty(t.counters[DUE_COUNT], np.int64)
    ranks, slots = np.empty(neighbours, np.uint64), np.empty(neighbours, np.int32)
    found = _ready(t, layer, watermarks, waited_since, needs_peer_embeddings, candidates, uniform, ranks, slots, places)
    if found > 4 * limit:
        # The oldest few, so that not all that wait are sorted.
        times = np.empty(found)
        for k in range(found):
            times[k] = t.pending[places[k]].time
        found = _not_after(t, np.partition(times, 4 * limit)[4 * limit], places, found)
    chosen = places[:found]
    if _sort_places(t, chosen, other):
        chosen = other[:found]
    if leaves:
        t.counters[PASS] += 1
        found = _in_node_order(t, chosen, t.counters[PASS], limit)
    return chosen[: min(found, limit)]


@compiled
def _not_after(t: Any, time: float, places: Array, count: int) -> int:
    """Of the first `count` places keep those whose time is not after `time`, in front; returns how many."""
    found = 0
    for k in range(count):
        if t.pending[places[k]].time <= time:
            places[found] = places[k]
            found += 1
    return found


@compiled
def _ready(
    t: Any,
    layer: int,
    watermarks: Array,
    waited_since: float,
    needs_peer_embeddings: bool,
    candidates: int,
    uniform: bool,
    ranks: Array,
    slots: Array,
    places: Array,
) -> int:
    """Pending places whose next layer can be computed, into `places`; returns how many.

    A row is ready when the watermark has reached its time and all that it sees have the peer embedding of the layer
    below.   ranks, slots: to work with, see `sample`
    """
    found = 0
    for place in range(t.counters[DUE_COUNT]):
        p = t.pending[place]
        if p.layer != layer or p.partition >= len(watermarks) or not p.time <= watermarks[p.partition]:
            continue
        if needs_peer_embeddings and p.watched != COMPLETE and p.received_at >= waited_since:
            # One missing peer embedding is watched, so that rows that wait are not sampled again each time.
            if p.watched >= 0 and t.rows[p.watched].version[layer - 1] < 0:
                continue
            p.watched = COMPLETE
            count = sample(t, p.node, p.time, candidates, uniform, ranks, slots)
            for k in range(count):
                if t.rows[slots[k]].version[layer - 1] < 0:
                    p.watched = slots[k]
                    break
            if p.watched >= 0:
                continue
        places[found] = place
        found += 1
    return found


@compiled
def _before(t: Any, a: int, b: int) -> bool:
    """Whether the row of pending place a comes before that of b."""
    if t.pending[a].time != t.pending[b].time:
        return bool(t.pending[a].time < t.pending[b].time)
    other = t.pending[b]
    return (
        compare(t, t.pending[a].slot, other.node, other.time, t.ids, t.peers, other.slot, t.rows[other.slot].side) < 0
    )


@compiled
def _sort_places(t: Any, places: Array, other: Array) -> bool:
    """Pending places in the order of their rows: a merge sort, as they are nearly sorted.

    other: of the same length at least; returns whether it has them, and not `places`
    """
    n, width, in_other = len(places), 1, False
    while width < n:
        current, to = (other, places) if in_other else (places, other)
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if j >= high or (i < middle and not _before(t, current[j], current[i])):
                    to[k] = current[i]
                    i += 1
                else:
                    to[k] = current[j]
                    j += 1
        in_other = not in_other
        width *= 2
    return in_other


@compiled
def _in_node_order(t: Any, places: Array, number_of_pass: int, limit: int) -> int:
    """Keep up to `limit` of sorted places, in front; returns how many.

    One is left out while an earlier row of its node is pending and stays behind.
    """
    count = 0
    for place in places:
        if count == limit:
            break
        p = t.pending[place]
        allowed = True
        if t.nodes[p.node].pending > 1:
            start = t.nodes[p.node].block
            position, _ = find(t, p.node, p.time, t.ids, t.peers, p.slot, t.rows[p.slot].side)
            for k in range(start + position - 1, start - 1, -1):
                earlier = t.rows[t.order[k]].pending
                if earlier >= 0:
                    allowed = t.pending[earlier].leaving == number_of_pass
                    break
        if allowed:
            p.leaving = number_of_pass
            places[count] = place
            count += 1
    return count


@compiled
def take_queries(
    t: Any,
    places: Array,
    slots: Array,
    nodes: Array,
    partitions: Array,
    times: Array,
    sides: Array,
    late: Array,
    origins: Array,
    versions: Array,
    own: Array,
    names: Array,
) -> None:
    """What pending rows ask, and what is told of them with the answer.

    slots, nodes, partitions: i4[R]   times: f8[R]   sides: u1[R]   late: ?[R]   origins: i8[R]   versions: i8[R], of
    their own lower layers   own: f4[R, Σw], these layers themselves   names: u1[3, R, bytes], the nodes' keys, their
    peers' and the interaction ids; all filled
    """
    for r in range(len(places)):
        p = t.pending[places[r]]
        row = t.rows[p.slot]
        slots[r], nodes[r], partitions[r], times[r], versions[r] = p.slot, p.node, p.partition, p.time, p.version
        sides[r], late[r], origins[r] = row.side, row.flags & LATE != 0, t.origins[p.slot]
        for c in range(own.shape[1]):
            own[r, c] = t.states[places[r], c]
        put_words(names[0, r], 0, t.keys, p.node)
        put_words(names[1, r], 0, t.peers, p.slot)
        put_words(names[2, r], 0, t.ids, p.slot)


@compiled_with_arrays
def look_back(
    t: Any,
    nodes: Array,
    times: Array,
    peer_embedding_layer: int,
    neighbours: int,
    candidates: int,
    uniform: bool,
    slots: Array,
    spans: Array,
    counts: Array,
    versions: Array,
) -> int:
    """What each query sees; returns how many see less than they should because peer embeddings are missing.

    nodes, times: [R]   peer_embedding_layer: the layer whose peer embeddings are read, −1 for none
    slots: i4[R, K]   spans: f8[R, K], t − t_i   counts: i4[R]   versions: i8[R], the lowest of the peer embeddings
    read; all filled
    """
    ranks, seen = np.empty(neighbours, np.uint64), np.empty(neighbours, np.int32)
    return _look_back(
        t, nodes, times, peer_embedding_layer, candidates, uniform, ranks, seen, slots, spans, counts, versions
    )


@compiled
def _look_back(
    t: Any,
    nodes: Array,
    times: Array,
    peer_embedding_layer: int,
    candidates: int,
    uniform: bool,
    ranks: Array,
    seen: Array,
    slots: Array,
    spans: Array,
    counts: Array,
    versions: Array,
) -> int:
    neighbours, short = len(seen), 0
    for r in range(len(nodes)):
        found = sample(t, nodes[r], times[r], candidates, uniform, ranks, seen)
        count, lowest = 0, np.iinfo(np.int64).max
        for k in range(found):
            row = t.rows[seen[k]]
            if peer_embedding_layer >= 0:
                if row.version[peer_embedding_layer] < 0:
                    continue
                lowest = min(lowest, row.version[peer_embedding_layer])
            slots[r, count] = seen[k]
            spans[r, count] = times[r] - row.time
            count += 1
        for k in range(count, neighbours):
            slots[r, k] = 0
            spans[r, k] = 0.0
        counts[r] = count
        versions[r] = lowest
        short += count < found
    return short


@compiled
def look_at_activity(t: Any, nodes: Array, times: Array, degree: Array, last: Array, fifth_last: Array) -> None:
    """Degree and the times of the last and fifth-last interaction, all strictly before each query.

    nodes, times: [R]   degree: i8[R]   last, fifth_last: f8[R], NaN where absent; all filled
    """
    for r in range(len(nodes)):
        start, visible = t.nodes[nodes[r]].block, 0
        last[r] = fifth_last[r] = np.nan
        for k in range(start + first_not_before(t, nodes[r], times[r]) - 1, start - 1, -1):
            row = t.rows[t.order[k]]
            if row.flags & PLACEHOLDER:
                continue
            visible += 1
            if visible == 1:
                last[r] = row.time
            if visible == 5:
                fifth_last[r] = row.time
        degree[r] = t.nodes[nodes[r]].evicted + visible


@compiled
def look_at_sums(t: Any, nodes: Array, times: Array, sums: Array) -> None:
    """Decayed sums of all that is strictly before each query, rows that are dropped included; see `graph.decayed`.

    nodes, times: [R]   sums: f8[R, constants · (1 + E)], filled. A query older than a row that is dropped has it all
    the same, as just now.
    """
    width = sums.shape[1] // len(t.decay_s)
    for r in range(len(nodes)):
        node = nodes[r]
        start = t.nodes[node].block
        end = start + first_not_before(t, node, times[r])
        for c in range(len(t.decay_s)):
            at = c * width
            fade = np.exp(-max(times[r] - t.sums[node, 0], 0.0) / t.decay_s[c])
            for e in range(width):
                sums[r, at + e] = fade * t.sums[node, 1 + at + e]
            for k in range(start, end):
                slot = t.order[k]
                if t.rows[slot].flags & PLACEHOLDER:
                    continue
                fade = np.exp((t.rows[slot].time - times[r]) / t.decay_s[c])
                sums[r, at] += fade
                for e in range(width - 1):
                    sums[r, at + 1 + e] += fade * t.payload[slot, e]


@compiled
def advance(t: Any, places: Array, read: Array, states: Array, column: int, version: int, versions: Array) -> int:
    """Rows at `places` have a state of their next layer: keep it, with the lowest version of what went into it.

    Returns how many rest on older weights.
    read: i8[R], the lowest version of what was read of others   states: f4[R, w]   column: where h of this layer begins
    in the pending rows' own states   version: of the weights   versions: i8[R], filled: the lowest of all these and of
    the rows' own lower layers
    """
    stale = 0
    for r in range(len(places)):
        p = t.pending[places[r]]
        p.layer += 1
        p.watched = UNKNOWN
        p.version = min(p.version, read[r])
        versions[r] = min(p.version, version)
        stale += versions[r] < version
        for c in range(states.shape[1]):
            t.states[places[r], column + c] = states[r, c]
    return stale


@compiled
def start_again(t: Any) -> None:
    """Pending rows forget their own layers that weights have made."""
    for place in range(t.counters[PENDING_COUNT]):
        p = t.pending[place]
        p.layer = min(p.layer, 1)
        p.version = np.iinfo(np.int64).max
        p.watched = UNKNOWN


@compiled_with_arrays
def slots_of(t: Any, nodes: Array) -> Array:
    """The slots of all rows of these nodes, placeholders included, each node's in order: i4[n]."""
    total = 0
    for node in nodes:
        total += t.nodes[node].count
    slots, at = np.empty(total, np.int32), 0
    for node in nodes:
        for k in range(t.nodes[node].count):
            slots[at] = t.order[t.nodes[node].block + k]
            at += 1
    return slots
