"""Dead letters: how a refused record is kept, and how it is had back as it was.

A letter's key and value are the record's. Its headers are first those that say why and whence, then all of the record's
own, in their order, so that what was refused can be sent again after what was wrong is mended.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stream_tgat.errors import WireError
from stream_tgat.wire.formats import HeaderList, Headers, header
from stream_tgat.wire.models import SCHEMA_VERSION

FIRST_PLACE: Final = "first-place"
"""Header of a record that is sent again: where it lay first, as `default_interaction_id` writes places."""
FIRST_WRITTEN: Final = "first-written"
"""Header of a record that is sent again: when it was written first, in unix milliseconds."""

_PLACE: Final = re.compile(rb"[A-Za-z0-9._-]{1,249}/\d{1,10}/\d{12,19}")


@dataclass(frozen=True)
class Letter:
    """A dead letter.

    topic, partition, offset: where the record lay that was refused   written: unix seconds at which it was, by Kafka
    headers: the record's own   size: in bytes, of a record too huge to be kept, whose beginning the letter has; else
    None
    """

    reason: str
    topic: str
    partition: int
    offset: int
    written: float | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    size: int | None

    @property
    def place(self) -> str:
        """Where the record lay, in words."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def first_place(self) -> bytes:
        """Where the record lay when it was sent first: letters of one record that was sent again agree in it."""
        found = header(self.headers, FIRST_PLACE)
        return place_of(self.topic, self.partition, self.offset) if found is None else found


def place_of(topic: str, partition: int, offset: int) -> bytes:
    """A record's place as one name. Twelve digits make offsets sort as strings."""
    return f"{topic}/{partition}/{offset:012d}".encode()


def first_place_of(headers: Headers, limit: int) -> bytes | None:
    """Where a record that is sent again lay first; None for others. limit: bytes that it may have

    WireError where the header says no place.
    """
    found = header(headers, FIRST_PLACE)
    if found is not None and not _PLACE.fullmatch(found):
        raise WireError(
            f"header {FIRST_PLACE!r} must be topic/partition/offset, the offset with 12 digits, not {found[:60]!r}"
        )
    if found is not None and len(found) > limit:
        raise WireError(f"header {FIRST_PLACE!r} is {len(found)} bytes long; at most {limit} are allowed")
    return found


def letter_headers(
    reason: str,
    headers: Headers | None,
    topic: str,
    partition: int,
    offset: int,
    *,
    written: float | None = None,
    size: int | None = None,
) -> HeaderList:
    """Headers of the letter of a refused record. headers: its own   written, size: see `Letter`"""
    own = _pairs(headers)
    written_by_us = [
        ("reason", reason.encode("utf-8", "backslashreplace")),
        ("schema-version", SCHEMA_VERSION.encode()),
        ("source-topic", topic.encode()),
        ("source-partition", b"%d" % partition),
        ("source-offset", b"%d" % offset),
        ("source-headers", b"%d" % len(own)),
    ]
    if written is not None:
        written_by_us.append(("source-timestamp", b"%d" % round(written * 1e3)))
    if size is not None:
        written_by_us.append(("truncated", b"%d" % size))
    return [*written_by_us, *own]


def read_letter(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> Letter:
    """The letter that a record of `dead-letters` is. WireError if it is none."""
    try:
        count = int(_required(headers, "source-headers"))
        own, headers = headers[len(headers) - count :], headers[: len(headers) - count]
        return Letter(
            reason=_required(headers, "reason").decode("utf-8", "replace"),
            topic=_required(headers, "source-topic").decode(),
            partition=int(_required(headers, "source-partition")),
            offset=int(_required(headers, "source-offset")),
            written=None if (at := header(headers, "source-timestamp")) is None else int(at) / 1e3,
            key=key,
            value=value,
            headers=tuple(own),
            size=None if (size := header(headers, "truncated")) is None else int(size),
        )
    except ValueError as problem:
        raise WireError(f"no dead letter of a worker: {problem}") from None


def _required(headers: Headers, name: str) -> bytes:
    found = header(headers, name)
    if found is None:
        raise WireError(f"header {name!r} is missing")
    return found


def _pairs(headers: Headers | None) -> HeaderList:
    return list(headers.items() if isinstance(headers, Mapping) else headers or ())
