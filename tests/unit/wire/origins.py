"""Origins as a reader of packets sees them."""

import numpy as np

from stream_tgat.wire.origins import Origin, source_offsets, source_partitions


def unpack_origin(number: int) -> Origin:
    """The inverse of `pack_origins`, for one."""
    packed = np.array([number])
    return Origin(int(source_partitions(packed)[0]), int(source_offsets(packed)[0]))
