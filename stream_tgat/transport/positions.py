"""Which offset of each partition must be handed on next.

Kafka's client moves its position when it returns a fetch, whether or not anything became of it. Faust drops fetches
while the group rebalances, and seeks while fetches are under way; stock, those records are lost. Here the consumer
keeps its own account, and a position that disagrees with it is corrected before the next fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any

from faust.types import TP

from stream_tgat.transport.seeks import Seeks


class Doubt(Enum):
    """What must be seen twice to be believed."""

    HOLE = "a fetch begins behind the offset that comes next"
    NOTHING = "a fetch brought no record and yet moved the client's position"


class Positions:
    """For each partition the next offset to hand on, and what was handed on and not yet acknowledged."""

    def __init__(self) -> None:
        self._next: dict[TP, int] = {}
        self._unacknowledged: dict[TP, deque[int]] = {}
        self._doubted: dict[tuple[TP, Doubt], tuple[int, int]] = {}
        self.seeks = Seeks()
        # Where the agents have records of their own that need not be read: behind the last of them.
        self.heard: dict[TP, int] = {}
        # Up to which offset all is acknowledged, whoever brought it.
        self._done: dict[TP, int] = {}

    def next(self, tp: TP) -> int | None:
        """The offset that must be handed on next; None for a partition that was not sought yet."""
        return self._next.get(tp)

    def all(self) -> dict[TP, int]:
        """The next offset of every partition."""
        return dict(self._next)

    def clear(self) -> None:
        """Forget all partitions: they will be assigned and sought anew."""
        self._next.clear()
        self._unacknowledged.clear()
        self._doubted.clear()
        self.seeks.forget(self.seeks.all())
        self.heard.clear()
        self._done.clear()

    def seek(self, tp: TP, offset: int) -> None:
        """Go on at an offset; what was handed on before will not be acknowledged."""
        self._next[tp] = offset
        self._unacknowledged[tp] = deque()
        self.heard.pop(tp, None)
        self._done.pop(tp, None)
        for doubt in Doubt:
            self._doubted.pop((tp, doubt), None)
        self.seeks.note([tp])

    def doubt(self, tp: TP, doubt: Doubt, found: int) -> bool:
        """Whether to look again before believing that the log goes on at `found` instead of where it should.

        True the first time: what is missing may have been fetched and dropped. False when a second look, after a
        seek back, found the same: then the log has nothing there (compaction, control records, aborted transactions).
        """
        claim = (self._next[tp], found)
        if self._doubted.get((tp, doubt)) == claim:
            del self._doubted[tp, doubt]
            return False
        self._doubted[tp, doubt] = claim
        return True

    def fresh(self, tp: TP, records: Sequence[Any]) -> tuple[Sequence[Any], int]:
        """Split a fetch: the records not handed on before, and how many offsets are missing before the first."""
        expected = self._next.get(tp)
        if expected is None:
            return (), 0
        if records and records[0].offset < expected:
            records = [record for record in records if record.offset >= expected]
        return records, records[0].offset - expected if records else 0

    def handed_on(self, tp: TP, records: Sequence[Any], *, acknowledged_later: bool) -> None:
        """Note records that were put into a stream's queue."""
        self._next[tp] = records[-1].offset + 1
        if acknowledged_later:
            self._unacknowledged.setdefault(tp, deque()).extend([record.offset for record in records])

    def hear(self, tp: TP, end: int) -> None:
        """Note that the agent has all records before `end`, from whoever wrote them: they are not read any more."""
        expected = self._next.get(tp)
        if expected is not None and end > expected:
            self._next[tp] = self.heard[tp] = end
            self._unacknowledged.setdefault(tp, deque()).append(end - 1)

    def acknowledge_to(self, tp: TP, offset: int) -> None:
        """Note that all records up to and with an offset are done with."""
        self._done[tp] = offset

    def skip_to(self, tp: TP, offset: int) -> None:
        """Note that the log holds nothing for us before an offset (control records, compaction)."""
        if offset > self._next.get(tp, offset):
            self._next[tp] = offset

    def committable(self, tp: TP, acknowledged: set[int]) -> int | None:
        """The offset to commit: behind the last record up to which all are acknowledged. None if nothing is new.

        `acknowledged` loses what is returned. Gaps in the log need no care: only offsets that were handed on count.
        """
        waiting, done = self._unacknowledged.get(tp), self._done.get(tp, -1)
        offset = None
        while waiting and (waiting[0] <= done or waiting[0] in acknowledged):
            last = waiting.popleft()
            acknowledged.discard(last)
            offset = last + 1
        return offset
