"""What this worker has itself appended to its own partitions of `propagation`, known before it is read back.

A record that the brokers have acknowledged stands in the log at its offset for good. Its writer, if it is its reader
too, need not wait for a fetch: it takes the record as soon as it comes next. The log's order is kept exactly; records
of other workers in between come from the fetch, and so does everything that was not heard.
"""

from typing import NamedTuple


class Echoed(NamedTuple):
    """A record as the receiver wants it; it cannot be acknowledged, its fetched twin is.

    is_known: all that it holds has been received already: memos that entered their rows when they were computed.
    """

    offset: int
    value: bytes
    is_known: bool = False


class Echo:
    """Per partition: the offset that comes next, and what was heard from there on."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._heard: dict[int, dict[int, Echoed]] = {}

    def open(self, partition: int, next_offset: int) -> None:
        """A partition is ours; its reader wants `next_offset`."""
        self._next[partition] = next_offset
        self._heard[partition] = {}

    def close(self, partition: int) -> None:
        """A partition is no longer ours, if it was."""
        self._next.pop(partition, None)
        self._heard.pop(partition, None)

    def hear(self, partition: int, record: Echoed) -> bool:
        """Note an acknowledged record; returns whether it comes next."""
        wanted = self._next.get(partition)
        if wanted is None or record.offset < wanted:
            return False
        self._heard[partition][record.offset] = record
        return record.offset == wanted

    def read(self, partition: int, offset: int) -> None:
        """A record came from the log."""
        if offset >= self._next[partition]:
            heard = self._heard[partition]
            for known in range(self._next[partition], offset + 1):
                heard.pop(known, None)
            self._next[partition] = offset + 1

    def take(self, partition: int) -> list[Echoed]:
        """All that was heard and comes next, in order."""
        heard, found = self._heard[partition], []
        while (record := heard.pop(self._next[partition], None)) is not None:
            found.append(record)
            self._next[partition] += 1
        return found
