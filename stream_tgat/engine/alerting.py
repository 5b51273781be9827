"""Alerts of embeddings that leave: which predictions cross their threshold, and what explains it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_tgat.engine.crossings import crossings
from stream_tgat.engine.values import AlertPolicy, AttendedRow, FinalEmbeddings, Floats, ThresholdCrossing
from stream_tgat.storage.arena import Arena

#: How many past interactions an alert names.
REASONS = 5


def policy_for(heads: Sequence[str], alerts: AlertPolicy | None) -> AlertPolicy:
    """`alerts`, or the policy that never alerts where it is None.

    ValueError if it has not one threshold and one cooldown for each of `heads`.
    """
    alerts = alerts or AlertPolicy((np.inf,) * len(heads), (0.0,) * len(heads))
    if not len(alerts.thresholds) == len(alerts.cooldowns_s) == len(heads):
        raise ValueError(f"the alert policy needs a threshold and a cooldown for each of {heads}")
    return alerts


def alerts_of(
    arena: Arena,
    heads: Sequence[str],
    policy: AlertPolicy,
    embeddings: FinalEmbeddings,
    slots: NDArray[np.int32],
    nodes: NDArray[np.int32],
    weights: Floats,
    seen: NDArray[np.int32],
) -> list[ThresholdCrossing]:
    """Alerts of embeddings [B], in their order; moves the alert state of their nodes on.

    slots, nodes: of the rows, i4[B]   weights: [B, H, K], attention in the last layer to the row slots `seen` i4[B, K]
    """
    thresholds, cooldowns = np.array(policy.thresholds), np.array(policy.cooldowns_s)
    crossed = np.empty(embeddings.predictions.shape, np.bool_)
    crossings(
        arena.t,
        embeddings.predictions,
        slots,
        nodes,
        embeddings.time,
        thresholds,
        cooldowns,
        arena.probability,
        arena.newest,
        arena.alerted,
        crossed,
    )
    return [
        ThresholdCrossing(
            node=bytes(embeddings.node[b]),
            peer=bytes(embeddings.peer[b]),
            interaction=bytes(embeddings.interaction[b]),
            head=heads[head],
            probability=float(embeddings.predictions[b, head]),
            threshold=float(thresholds[head]),
            time=float(embeddings.time[b]),
            because=_reasons(arena, weights[b].mean(0), seen[b]),
            partition=int(embeddings.partition[b]),
            version=int(embeddings.version[b]),
            origin=int(embeddings.origin[b]),
        )
        for b, head in zip(*(k.tolist() for k in np.nonzero(crossed)), strict=True)
    ]


def _reasons(arena: Arena, weights: Floats, seen: NDArray[np.int32]) -> tuple[AttendedRow, ...]:
    """The past interactions with the largest weights [K] among the row slots `seen` [K]."""
    largest = np.argsort(-weights, kind="stable")[:REASONS]
    largest = largest[weights[largest] > 0]
    slots = seen[largest]
    peers, interactions = arena.peers_at(slots).tolist(), arena.interactions_at(slots).tolist()
    times = arena.t.rows["time"][slots].tolist()
    return tuple(map(AttendedRow, peers, interactions, times, weights[largest].tolist()))
