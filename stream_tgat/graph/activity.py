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
    last, fifth_last: [B] float64, their times; not read where degree is below 1 or 5, NaN where they are not kept any
    more (a late interaction may look back at a time whose rows are gone)
    Returns [B, 3] float32; the second and third are −1 (ABSENT) where degree is below 1 or 5, or the time is NaN.
    """
    result = np.empty((len(time), 3), np.float32)
    result[:, 0] = np.log1p(degree)
    for column, (needed, then) in enumerate(((1, last), (5, fifth_last)), start=1):
        known = (degree >= needed) & ~np.isnan(then)
        result[:, column] = np.where(known, np.log1p(np.where(known, time - then, 0.0)), ABSENT)
    return result
