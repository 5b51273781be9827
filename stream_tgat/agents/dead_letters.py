"""Records that cannot be used: counted, and sent on with their bytes as they came and the reason in words."""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from stream_tgat.transport.outbox import Record, gather_deliveries
from stream_tgat.wire import Headers, dead_letter_headers

_log = logging.getLogger(__name__)

#: The topic takes 8 MB. A record may be far larger once its batch is unpacked, and must not stop the stream for that.
LARGEST_BYTES: Final = 4_000_000


@dataclass(frozen=True)
class Refused:
    """A record that an agent read and could not use."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    reason: str

    @classmethod
    def of(cls, record: Any, reason: str) -> "Refused":
        """A record of a Kafka client, and why it cannot be used."""
        return cls(record.topic, record.partition, record.offset, record.key, record.value, record.headers, reason)


def dead_letters(refused: Sequence[Refused], partitions: int) -> dict[int, list[Record]]:
    """The dead letters of `refused`, by partition of their topic; one source partition keeps its order.

    Keys and values come as they were, but for huge ones: of these the beginning, and a header with the whole length.
    """
    letters: dict[int, list[Record]] = {}
    for record in sorted(refused, key=lambda each: (each.topic, each.partition, each.offset)):
        size = max(len(record.key or b""), len(record.value or b""))
        headers = dead_letter_headers(
            record.reason,
            record.headers,
            record.topic,
            record.partition,
            record.offset,
            truncated=size if size > LARGEST_BYTES else None,
        )
        to = zlib.crc32(f"{record.topic}/{record.partition}".encode()) % partitions
        letters.setdefault(to, []).append(Record(_cut(record.key), _cut(record.value), headers))
    return letters


async def deliver_dead_letters(outbox: Any, topic: str, refused: Sequence[Refused]) -> None:
    """Send the dead letters of `refused` and wait until the brokers have them all. outbox: the application's"""
    letters = dead_letters(refused, await outbox.partitions(topic))
    await gather_deliveries(*(outbox.deliver(topic, to, records) for to, records in letters.items()))


def _cut(data: bytes | None) -> bytes | None:
    return None if data is None else data[:LARGEST_BYTES]


def log_refused(refused: Sequence[Refused]) -> None:
    """One line for a batch, with its first reason: a flood of bad records must not become a flood of lines."""
    first = refused[0]
    _log.warning(
        "%d record(s) went to the dead letters; the first is %s/%d/%d: %s",
        len(refused),
        first.topic,
        first.partition,
        first.offset,
        first.reason,
    )
