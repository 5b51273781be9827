"""W3C trace context of input records, on its way to what comes of them: the header `traceparent`, unchanged.

Between workers it travels in a header of the packets of a cycle, for each record that has one, by its origin.
"""

import re
import struct
from collections.abc import Iterable
from typing import Final

from stream_tgat.wire.formats import Headers, header

TRACEPARENT: Final = "traceparent"
#: Of a record of `propagation`.
TRACES: Final = "traces"

#: Most of one packet: with them it must stay below what brokers take.
MOST_TRACES: Final = 900

_FORM: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ENTRY: Final = struct.Struct("<q55s")


def traceparent_of(headers: Headers | None) -> bytes | None:
    """The trace that a record belongs to; None without one, or if it is not of the form that W3C gives it."""
    found = header(headers, TRACEPARENT)
    return found if found is not None and _FORM.fullmatch(found) else None


def encode_traces(traces: Iterable[tuple[int, bytes]]) -> bytes:
    """Origins of records (see `pack_origins`) with their traces, as a header's value."""
    return b"".join(_ENTRY.pack(origin, trace) for origin, trace in traces)


def decode_traces(value: bytes) -> dict[int, bytes]:
    """The inverse of `encode_traces`; nothing of what was not written so."""
    if len(value) % _ENTRY.size:
        return {}
    return dict(_ENTRY.iter_unpack(value))
