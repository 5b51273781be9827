"""The changelog of a table: each commit is one record batch.

Kafka appends a record batch completely or not at all. So a commit that is one batch is atomic in the log, and recovery
never sees half of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_tgat.errors import BatchTooLargeError, FencedError, ForeignWriterError
from stream_tgat.rocks import Change
from stream_tgat.transport.producer import Parcel, first_offsets

BATCH_OVERHEAD_BYTES = 100
RECORD_OVERHEAD_BYTES = 24
"""Upper bounds of what the format adds to a batch and to each record, beside key and value."""


class Changelog:
    """Appends to the changelog topic of one table and notices when someone else does."""

    def __init__(self, app: Any, topic: str, max_batch_bytes: int) -> None:
        self.topic = topic
        self.max_batch_bytes = max_batch_bytes
        self._app = app
        self._end: dict[int, int] = {}

    def resume(self, partition: int, end: int) -> None:
        """Note the end offset up to which a partition was recovered: the next append must begin there."""
        self._end[partition] = end

    def forget(self, partition: int) -> None:
        """Drop what is known about a partition that this worker no longer owns."""
        self._end.pop(partition, None)

    @staticmethod
    def size(changes: Iterable[Change]) -> int:
        """Bytes that a batch of these changes needs at most (before compression)."""
        return BATCH_OVERHEAD_BYTES + sum(
            len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES for key, value in changes
        )

    async def append(self, changes: Mapping[int, Sequence[Change]]) -> dict[int, int]:
        """Append the changes of each partition as one record batch.

        Returns the offset of the last record of each once the brokers have them all. Raises BatchTooLargeError before
        anything is sent or when the topic does not take it, and ForeignWriterError if a batch did not land where the
        log ended: then another worker has written too, and only recovery knows what the state is.
        """
        for partition in changes:
            if partition not in self._end:
                raise FencedError(f"{self._where(partition)}: not recovered by this worker, so nothing may be appended")
        parcels = [Parcel(self.topic, number, self._batch(number, mine)) for number, mine in changes.items()]
        firsts = await first_offsets(self._app.producer.kafka, parcels)
        last = {}
        for (partition, mine), first in zip(changes.items(), firsts, strict=True):
            expected, self._end[partition] = self._end[partition], first + len(mine)
            if first != expected:
                self.forget(partition)
                raise ForeignWriterError(
                    f"{self._where(partition)}: appended at offset {first} instead of {expected}; another worker "
                    "writes to it too"
                )
            last[partition] = first + len(mine) - 1
        return last

    def _batch(self, partition: int, changes: Sequence[Change]) -> Any:
        batch = self._app.producer.new_batch(self.max_batch_bytes)
        for key, value in changes:
            if batch.append(timestamp=None, key=key, value=value) is None:
                raise BatchTooLargeError(
                    f"{self._where(partition)}: {len(changes)} changes of {self.size(changes)} bytes do not fit into "
                    f"one batch of {self.max_batch_bytes}; commit fewer changes at once"
                )
        if not changes or batch.size() > self.max_batch_bytes:
            raise BatchTooLargeError(
                f"{self._where(partition)}: a batch needs 1 to {self.max_batch_bytes} bytes of changes"
            )
        batch.close()
        return batch

    def _where(self, partition: int) -> str:
        return f"changelog {self.topic}/{partition}"
