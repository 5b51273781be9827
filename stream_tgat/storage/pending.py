"""Rows whose own embedding has not left: those that are due come first, the others wait in a heap by time; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_tgat.compiled import compiled
from stream_tgat.storage.tables import DUE_COUNT, PENDING_COUNT, UNKNOWN


@compiled
def add_pending(t: Any, slot: int, first_layer: int, now: float) -> None:
    """A row whose embedding is still to be computed, from `first_layer` on."""
    place = t.counters[PENDING_COUNT]
    t.counters[PENDING_COUNT] += 1
    t.nodes[t.rows[slot].node].pending += 1
    _begin_pending(t, place, slot, first_layer, now)
    _push_early(t, place - t.counters[DUE_COUNT], slot)


@compiled
def _begin_pending(t: Any, place: int, slot: int, layer: int, received_at: float) -> None:
    p, row = t.pending[place], t.rows[slot]
    row.pending = place
    p.time = row.time
    p.received_at = received_at
    p.version = np.iinfo(np.int64).max
    p.slot = slot
    p.node = row.node
    p.partition = t.nodes[row.node].partition
    p.watched = UNKNOWN
    p.layer = layer
    p.leaving = -1


@compiled
def remove_pending(t: Any, place: int) -> None:
    """Forget a pending place; others move into its stead. Where it is an early one, `queue_early` is to follow."""
    t.rows[t.pending[place].slot].pending = -1
    t.nodes[t.pending[place].node].pending -= 1
    if place < t.counters[DUE_COUNT]:
        t.counters[DUE_COUNT] -= 1
        _move_pending(t, t.counters[DUE_COUNT], place)
        place = t.counters[DUE_COUNT]
    t.counters[PENDING_COUNT] -= 1
    _move_pending(t, t.counters[PENDING_COUNT], place)


@compiled
def _move_pending(t: Any, place: int, to: int) -> None:
    if place != to:
        t.pending[to] = t.pending[place]
        for c in range(t.states.shape[1]):
            t.states[to, c] = t.states[place, c]
        t.rows[t.pending[to].slot].pending = to


@compiled
def reach(t: Any, time: float, enough: int) -> bool:
    """Early rows up to `time` are due, the first in time, until `enough` are; whether there are more of them.

    Nothing has been computed of early rows, so their places have no states yet.
    """
    while True:
        due = t.counters[DUE_COUNT]
        count = t.counters[PENDING_COUNT] - due
        if count == 0 or not t.early[0].time <= time:
            return False
        if due >= enough:
            return True
        slot = t.early[0].slot
        _pop_early(t, count)
        place = t.rows[slot].pending
        layer, received_at = t.pending[place].layer, t.pending[place].received_at
        if place != due:
            t.pending[place] = t.pending[due]
            t.rows[t.pending[place].slot].pending = place
        _begin_pending(t, due, slot, layer, received_at)
        t.counters[DUE_COUNT] += 1


@compiled
def queue_early(t: Any) -> None:
    """Make the heap of the early rows anew."""
    due = t.counters[DUE_COUNT]
    for k in range(t.counters[PENDING_COUNT] - due):
        _push_early(t, k, t.pending[due + k].slot)


@compiled
def _push_early(t: Any, count: int, slot: int) -> None:
    """One more in a heap of `count`."""
    k, time = count, t.rows[slot].time
    while k > 0 and t.early[(k - 1) // 2].time > time:
        t.early[k] = t.early[(k - 1) // 2]
        k = (k - 1) // 2
    t.early[k].time, t.early[k].slot = time, slot


@compiled
def _pop_early(t: Any, count: int) -> None:
    """Take the top off a heap of `count`."""
    time, slot = t.early[count - 1].time, t.early[count - 1].slot
    k = 0
    while True:
        child = 2 * k + 1
        if child + 1 < count - 1 and t.early[child + 1].time < t.early[child].time:
            child += 1
        if child >= count - 1 or time <= t.early[child].time:
            break
        t.early[k] = t.early[child]
        k = child
    t.early[k].time, t.early[k].slot = time, slot
