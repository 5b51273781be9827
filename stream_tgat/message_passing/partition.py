"""A partition of `propagation` in the hands of its owner: what was read of it, received, and committed.

It is opened with the state as it is stored and forgotten as a whole: whatever went wrong, the next one begins anew.
"""

from collections import deque
from typing import Any, Final

from stream_tgat.message_passing.own_writes import OwnWrite, OwnWrites
from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.message_passing.receiving import Receiver

#: What a commit costs hardly depends on what is in it, and what a crash undoes is computed again: so a partition
#: commits this often only. Its own messages leave with it, which nobody waits for.
COMMIT_S: Final = 1.0
#: From so many bytes of changes on it commits anyway: a large commit holds up what comes behind it.
COMMIT_BYTES: Final = 512 * 1024


class Partition:
    """One partition, from its opening to its handover.

    waiting: records that were heard or read, in order, and not received
    taken_offset: the last received record when a commit was last made up
    changes_bytes: about how much the engine has of it that is in no committed state
    committed_offset, committed_at: the last record in its committed state; when that was, in monotonic seconds
    """

    def __init__(self, receiver: Receiver, now: float) -> None:
        self.receiver = receiver
        self.number = receiver.partition
        self.waiting: deque[Any] = deque()
        self.taken_offset = self.progress.offset
        self.changes_bytes = 0
        self.committed_offset = self.progress.offset
        self.committed_at = now
        self._own_writes = OwnWrites(self.progress.offset + 1)

    @property
    def progress(self) -> PartitionProgress:
        """How far it has been received."""
        return self.receiver.progress

    @property
    def next_offset(self) -> int:
        """The record that is wanted next from the log: all before it wait here, or are received."""
        return self._own_writes.next

    def hear(self, record: OwnWrite) -> bool:
        """Note a record that the brokers have acknowledged; returns whether there is something new to receive."""
        return self._own_writes.hear(record)

    def read(self, message: Any) -> None:
        """Take a record from the log. If it was heard, it waits behind what was heard, which says what is known."""
        self.waiting += self._own_writes.take()
        self._own_writes.read(message.offset)
        self.waiting.append(message)

    def pass_over_known(self) -> None:
        """Receive, of what comes next, all that holds nothing new; what is left to wait begins with something new."""
        self.waiting += self._own_writes.take()
        while self.waiting and self.receiver.knows(self.waiting[0]):
            self.waiting.popleft()

    def note_received(self, count: int) -> None:
        """The first records that wait are in the engine."""
        for _ in range(count):
            self.waiting.popleft()

    def is_due(self, now: float) -> bool:
        """Whether it has much to commit, or has had something for long enough."""
        if self.changes_bytes > COMMIT_BYTES:
            return True
        return now - self.committed_at > COMMIT_S and (
            self.changes_bytes > 0 or self.progress.offset > self.taken_offset
        )
