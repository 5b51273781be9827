"""Randomness that has no state: the same input gives the same draw, whatever was drawn before."""

import numpy as np
from numpy.typing import NDArray


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: one to one, and a bit of the input changes half of the bits.

    values: uint64 of any shape. The engine compiles this very function for one number.
    """
    h = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def hash_times(times: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A hash of the bits of each time."""
    return mix(np.ascontiguousarray(times, np.float64).view(np.uint64))


def unit(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Into (0, 1), from the upper 53 bits."""
    return ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
