"""Which rows cross the threshold of a prediction head; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_tgat.compiled import compiled
from stream_tgat.storage.tables import ABOVE, ALERTED, BELOW, Array, find


@compiled
def crossings(
    t: Any,
    probabilities: Array,
    slots: Array,
    nodes: Array,
    times: Array,
    thresholds: Array,
    cooldowns: Array,
    previous: Array,
    newest: Array,
    alerted: Array,
    crossed: Array,
) -> None:
    """Which rows cross a threshold upwards outside the cooldown: each crossing once, in whatever order rows come.

    A row crosses if it lies above and the row before it does not. One that comes behind a later row crosses if neither
    of the rows around it lies above: then that crossing was judged. The cooldown holds on both sides of an alert.

    probabilities: f4[B, heads], NaN for items   slots, nodes, times: of the rows, [B]
    previous, newest, alerted: f8[N, heads], state of each node, updated: what was said of its newest row (NaN:
    nothing), when that was, and when its newest alert was   crossed: ?[B, heads], filled
    """
    for b in range(len(nodes)):
        node, time = nodes[b], times[b]
        for head in range(len(thresholds)):
            crossed[b, head] = False
            probability = float(probabilities[b, head])
            if np.isnan(probability):
                continue
            above, cooldown = probability >= thresholds[head], cooldowns[head]
            crosses = above and abs(time - alerted[node, head]) >= cooldown
            if time >= newest[node, head]:
                crosses = crosses and not previous[node, head] >= thresholds[head]
                previous[node, head], newest[node, head] = probability, time
            else:
                crosses = crosses and _is_own_crossing(t, slots[b], head, cooldown)
            crossed[b, head] = crosses
            if crosses:
                alerted[node, head] = max(alerted[node, head], time)
            t.levels[slots[b], head] = ALERTED if crosses else (ABOVE if above else BELOW)


@compiled
def _is_own_crossing(t: Any, slot: int, head: int, cooldown: float) -> bool:
    """Whether neither row around this one lies above, and no row within the cooldown has alerted."""
    row = t.rows[slot]
    start, count = t.nodes[row.node].block, t.nodes[row.node].count
    position, _ = find(t, row.node, row.time, t.ids, t.peers, slot, row.side)
    for step in (-1, 1):
        k, is_next = position + step, True
        while 0 <= k < count:
            other = t.order[start + k]
            k += step
            level = t.levels[other, head]
            if level == 0:
                continue
            if is_next and level >= ABOVE:
                return False
            is_next = False
            if abs(t.rows[other].time - row.time) >= cooldown:
                break
            if level == ALERTED:
                return False
    return True
