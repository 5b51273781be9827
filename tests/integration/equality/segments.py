"""Which records of a partition lie in one record batch: read from the broker's own files, since no client tells."""

from __future__ import annotations

import struct
from pathlib import Path

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta: the head of a batch of format 2.
_HEAD = struct.Struct(">qiibIhi")
_BEFORE_LENGTH_COUNTS = 12


def record_batches(broker_data: Path, topic: str, partition: int) -> list[range]:
    """The offsets of each batch of a partition, in order; the topic must not have been compacted yet."""
    found = []
    for segment in sorted((broker_data / "log" / f"{topic}-{partition}").glob("*.log")):
        content = segment.read_bytes()
        at = 0
        while at + _HEAD.size <= len(content):
            base, length, _, magic, _, _, last_delta = _HEAD.unpack_from(content, at)
            assert magic == 2, (segment, at)
            found.append(range(base, base + last_delta + 1))
            at += _BEFORE_LENGTH_COUNTS + length
    return found
