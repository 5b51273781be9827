"""Pair recurrence: how often and how lately two nodes met, as the stored interactions of each of them tell.

One definition for what happened as for negatives. The affinity reads it. The two ends tell different things: one that
is busy forgets a meeting early, and what came since the last one says how far each has moved on.
"""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.activity import ABSENT
from stream_tgat.graph.adjacency import TemporalAdjacency

RECURRENCE_WIDTH = 3
PAIR_WIDTH = 2 * RECURRENCE_WIDTH


def pair_features(
    history: TemporalAdjacency,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    times: NDArray[np.float64],
    kept: int,
) -> NDArray[np.float32]:
    """Recurrence in the newest `kept` interactions of each source, then in those of each destination.

    sources: [B] int64   destinations: [B, Q] int64   times: [B] float64, seconds; only what is strictly earlier counts
    Returns [B, Q, 6] float32.
    """
    own = history.recent(sources, times, kept)
    others, now = destinations.ravel(), np.repeat(times, destinations.shape[1])
    theirs = history.recent(others, now, kept)
    met = np.repeat(sources, destinations.shape[1])[:, None]
    return np.concatenate(
        [
            recurrence(times, own.node, own.time, own.mask, destinations),
            recurrence(now, theirs.node, theirs.time, theirs.mask, met).reshape(*destinations.shape, RECURRENCE_WIDTH),
        ],
        -1,
    )


def recurrence(
    now: NDArray[np.float64],
    peers: NDArray[np.int64],
    times: NDArray[np.float64],
    mask: NDArray[np.bool_],
    candidates: NDArray[np.int64],
) -> NDArray[np.float32]:
    """log(1 + meetings), log(1 + seconds since the last one), log(1 + other interactions since the last one).

    now: [B] float64, seconds   candidates: [B, Q] int64, whom each node may meet now
    peers: [B, C] int64, times: [B, C] float64, the node's C newest interactions strictly before now, oldest first
    mask: [B, C] bool, True where there is such an interaction
    Returns [B, Q, 3] float32; 0, −1 and −1 (ABSENT) where the two have not met in those C.
    """
    met = (peers[:, None, :] == candidates[:, :, None]) & mask[:, None, :]  # [B, Q, C]
    kept = met.shape[-1]
    since = np.argmax(met[:, :, ::-1], -1) if kept else np.zeros(met.shape[:2], np.int64)
    known = met.any(-1)
    result = np.full((*candidates.shape, RECURRENCE_WIDTH), ABSENT, np.float32)
    result[..., 0] = np.log1p(met.sum(-1))
    if kept:
        last = times[np.arange(len(now))[:, None], kept - 1 - since]
        result[..., 1] = np.where(known, np.log1p(np.where(known, now[:, None] - last, 0.0)), ABSENT)
        result[..., 2] = np.where(known, np.log1p(since), ABSENT)
    return result
