"""What this worker has itself appended to one of its partitions of `propagation`, known before it is read back.

A record that the brokers have acknowledged stands in the log at its offset for good. Its writer, if it is its reader
too, need not wait for a fetch: it takes the record as soon as it comes next. The log's order is kept exactly; records
of other workers in between come from the fetch, and so does everything that was not heard.
"""

from typing import NamedTuple

from stream_tgat.wire.formats import Headers


class OwnWrite(NamedTuple):
    """A record as the receiver wants it.

    headers: as they were sent   is_known: all that it holds has been received already: peer embeddings that entered
    their rows when they were computed
    """

    offset: int
    value: bytes
    is_known: bool = False
    headers: Headers = ()


class OwnWrites:
    """The offset that comes next in one partition, and what was heard from there on."""

    def __init__(self, next_offset: int) -> None:
        self._next = next_offset
        self._heard: dict[int, OwnWrite] = {}

    @property
    def next(self) -> int:
        """The offset that comes next: all before it was read, or taken from here."""
        return self._next

    def hear(self, record: OwnWrite) -> bool:
        """Note an acknowledged record. Returns whether `take` would now give one that holds something new."""
        if record.offset < self._next:
            return False
        self._heard[record.offset] = record
        offset = self._next
        while (found := self._heard.get(offset)) is not None and found.is_known:
            offset += 1
        return found is not None

    def read(self, offset: int) -> None:
        """Note that the record at an offset came from the log."""
        for known in range(self._next, offset + 1):
            self._heard.pop(known, None)
        self._next = max(self._next, offset + 1)

    def take(self) -> list[OwnWrite]:
        """The heard records that follow on the next offset without a gap, in order; they are forgotten here."""
        found = []
        while (record := self._heard.pop(self._next, None)) is not None:
            found.append(record)
            self._next += 1
        return found
