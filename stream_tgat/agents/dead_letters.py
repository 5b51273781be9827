"""Records that cannot be used: counted, and sent on with their bytes as they came and the reason in words."""

import logging
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stream_tgat.message_passing.refused import Refused
from stream_tgat.transport.outbox import Delivery, OutgoingRecord
from stream_tgat.wire import letter_headers

_log = logging.getLogger(__name__)

#: The topic takes 8 MB. A record may be far larger once its batch is unpacked, and must not stop the stream for that.
LARGEST_BYTES: Final = 4_000_000
#: A key and a value of the largest size leave room for so many bytes of headers, and ours.
LARGEST_HEADERS_BYTES: Final = 256_000


def dead_letters(refused: Sequence[Refused], partitions: int) -> dict[int, list[OutgoingRecord]]:
    """The dead letters of `refused`, by partition of their topic; one source partition keeps its order.

    All comes as it was, but for huge records: of these the beginning, and a header with the whole length.
    """
    letters: dict[int, list[OutgoingRecord]] = {}
    for record in sorted(refused, key=lambda each: (each.topic, each.partition, each.offset)):
        to = zlib.crc32(f"{record.topic}/{record.partition}".encode()) % partitions
        letters.setdefault(to, []).append(_letter(record))
    return letters


def _letter(record: Refused) -> OutgoingRecord:
    own = list(record.headers.items() if isinstance(record.headers, Mapping) else record.headers or ())
    header_bytes = sum(len(name.encode()) + len(value or b"") for name, value in own)
    largest = max(len(record.key or b""), len(record.value or b""))
    is_huge = largest > LARGEST_BYTES or header_bytes > LARGEST_HEADERS_BYTES
    headers = letter_headers(
        record.reason,
        own if header_bytes <= LARGEST_HEADERS_BYTES else None,
        record.topic,
        record.partition,
        record.offset,
        written=record.written,
        size=max(largest, header_bytes) if is_huge else None,
    )
    return OutgoingRecord(_cut(record.key), _cut(record.value), headers)


async def deliver_dead_letters(outbox: Any, topic: str, refused: Sequence[Refused]) -> None:
    """Send the dead letters of `refused` and wait until the brokers have them all. outbox: the application's"""
    letters = dead_letters(refused, await outbox.partitions(topic))
    await outbox.deliver([Delivery(topic, to, records) for to, records in letters.items()])


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
