"""W3C trace context of input records, on its way to what comes of them: `traceparent` and `tracestate`, unchanged.

Between workers it travels in a header of the packets of a cycle, for each record that has one, by its origin.
"""

import re
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from stream_tgat.wire.formats import HeaderList, Headers, header

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
#: Of a record of `propagation`.
TRACES: Final = "traces"

#: Most of one packet: with them it must stay below what brokers take.
MOST_BYTES: Final = 60_000
#: The longest `tracestate` that is carried; W3C asks for as much.
LONGEST_STATE: Final = 512

_FORM: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ENTRY: Final = struct.Struct("<q55sH")


class Trace(NamedTuple):
    """The trace that a record belongs to. state: what tracing systems add to it, empty without"""

    parent: bytes
    state: bytes = b""

    @property
    def headers(self) -> HeaderList:
        """As they stood on the record."""
        parent = (TRACEPARENT, self.parent)
        return [parent, (TRACESTATE, self.state)] if self.state else [parent]


def trace_of(headers: Headers | None) -> Trace | None:
    """The trace that a record belongs to; None without one, or if it is not of the form that W3C gives it."""
    parent = header(headers, TRACEPARENT)
    if parent is None or not _FORM.fullmatch(parent):
        return None
    state = header(headers, TRACESTATE) or b""
    return Trace(parent, state if len(state) <= LONGEST_STATE else b"")


def encode_traces(traces: Iterable[tuple[int, Trace]]) -> bytes:
    """Origins of records (see `pack_origins`) with their traces, as a header's value: as many as MOST_BYTES hold."""
    entries, room = [], MOST_BYTES
    for origin, (parent, state) in traces:
        room -= _ENTRY.size + len(state)
        if room < 0:
            break
        entries += [_ENTRY.pack(origin, parent, len(state)), state]
    return b"".join(entries)


def decode_traces(value: bytes) -> dict[int, Trace]:
    """The inverse of `encode_traces`; nothing of what was not written so."""
    found, at = {}, 0
    while at + _ENTRY.size <= len(value):
        origin, parent, length = _ENTRY.unpack_from(value, at)
        at += _ENTRY.size + length
        found[origin] = Trace(parent, value[at - length : at])
    return found if at == len(value) else {}
