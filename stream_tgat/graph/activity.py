"""Activity features: how much and how lately a node has acted, from its past only.

One definition for training and stream. They are the layer-0 state of a node at a time.
"""

import numpy as np
from numpy.typing import NDArray

ABSENT = -1.0
"""Stands where there is no last or fifth-last interaction; log1p of a time span is never negative."""


def activity(
    time: NDArray[np.float64],
    degree: NDArray[np.int64],
    last: NDArray[np.float64],
    fifth_last: NDArray[np.float64],
) -> NDArray[np.float32]:
    """log(1 + degree), log(1 + seconds since the last interaction), the same since the fifth-last.

    time: [B] float64, now   degree: [B] int64, interactions strictly before now, exact however few are kept
    last, fifth_last: [B] float64, their times; not read (NaN, say) where degree is below 1 or 5
    Returns [B, 3] float32; the second and third are −1 (ABSENT) where degree is below 1 or 5.
    """
    result = np.empty((len(time), 3), np.float32)
    result[:, 0] = np.log1p(degree)
    result[:, 1] = np.where(degree >= 1, np.log1p(np.where(degree >= 1, time - last, 0.0)), ABSENT)
    result[:, 2] = np.where(degree >= 5, np.log1p(np.where(degree >= 5, time - fifth_last, 0.0)), ABSENT)
    return result
