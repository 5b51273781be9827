"""The record of `interactions` that a row came from, as the one number that the engine keeps beside the row."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_OFFSET_BITS: Final = 48


class Origin(NamedTuple):
    """A record of `interactions`."""

    partition: int
    offset: int


def pack_origins(partition: int, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers i8[n] for the records of one partition at offsets i8[n]."""
    return offsets | np.int64(partition << _OFFSET_BITS)


def source_partitions(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The partitions in numbers of `pack_origins`: i8[n]."""
    return numbers >> _OFFSET_BITS


def source_offsets(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offsets in numbers of `pack_origins`: i8[n]."""
    return numbers & np.int64((1 << _OFFSET_BITS) - 1)


def unpack_origin(number: int) -> Origin:
    """The inverse of `pack_origins`, for one."""
    return Origin(number >> _OFFSET_BITS, number & ((1 << _OFFSET_BITS) - 1))
