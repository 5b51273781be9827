"""The record of a source that an entry came from, as the one number that packets and the engine's rows carry."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Offsets of centuries, and partitions of 32 topics, see `packets.MOST_PARTITIONS`.
_OFFSET_BITS: Final = 44


class Origin(NamedTuple):
    """A record of a source: of interactions for half-edges, of nodes for features. partition: see `Source`"""

    partition: int
    offset: int


def pack_origins(partitions: NDArray[np.int64] | int, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers i8[n] for the records at offsets i8[n] of partitions i8[n], or all of one partition."""
    return offsets | (np.asarray(partitions, np.int64) << _OFFSET_BITS)


def source_partitions(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The partitions in numbers of `pack_origins`: i8[n]."""
    return numbers >> _OFFSET_BITS


def source_offsets(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offsets in numbers of `pack_origins`: i8[n]."""
    return numbers & ((1 << _OFFSET_BITS) - 1)
