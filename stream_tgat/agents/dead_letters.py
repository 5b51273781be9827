"""Records that cannot be used: counted, and sent on with their bytes as they came and the reason in words."""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from stream_tgat.transport.outbox import Record
from stream_tgat.wire import Headers, dead_letter_headers

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refused:
    """A record that ingest read and could not use."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    reason: str


def dead_letters(refused: Sequence[Refused], partitions: int) -> dict[int, list[Record]]:
    """The dead letters of `refused`, by partition of their topic; one source partition keeps its order."""
    letters: dict[int, list[Record]] = {}
    for record in refused:
        headers = dead_letter_headers(record.reason, record.headers, record.topic, record.partition, record.offset)
        to = zlib.crc32(f"{record.topic}/{record.partition}".encode()) % partitions
        letters.setdefault(to, []).append(Record(record.key, record.value, headers))
    return letters


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
