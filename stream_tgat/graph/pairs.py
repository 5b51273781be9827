"""Pair recurrence: how often and how lately a node met a candidate, from the node's own stored interactions only.

One definition for training and stream, and for what happened as for negatives. The affinity reads it.
"""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.activity import ABSENT

PAIR_WIDTH = 3


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
    result = np.full((*candidates.shape, PAIR_WIDTH), ABSENT, np.float32)
    result[..., 0] = np.log1p(met.sum(-1))
    if kept:
        last = times[np.arange(len(now))[:, None], kept - 1 - since]
        result[..., 1] = np.where(known, np.log1p(np.where(known, now[:, None] - last, 0.0)), ABSENT)
        result[..., 2] = np.where(known, np.log1p(since), ABSENT)
    return result
