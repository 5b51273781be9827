"""Traces go from the headers of input records to those of what comes of them, each to its own."""

from __future__ import annotations

import pytest

from stream_tgat.message_passing.traces import Traces
from stream_tgat.wire.traces import TRACES, decode_traces, encode_traces, traceparent_of

# The example of the W3C recommendation.
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_traceparent_is_taken_as_it_is_sent() -> None:
    assert traceparent_of([("content-type", b"application/json"), ("traceparent", PARENT)]) == PARENT
    assert traceparent_of({"Traceparent": PARENT}) == PARENT
    assert traceparent_of(None) is None
    assert traceparent_of([("content-type", b"application/json")]) is None


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        PARENT[:-1],
        PARENT + b"0",
        PARENT.upper(),
        b"ff" + PARENT[2:],
        b"00-" + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + PARENT[52:],
    ],
)
def test_traceparent_of_another_form_is_none(damaged: bytes) -> None:
    assert traceparent_of([("traceparent", damaged)]) is None


def test_each_interaction_finds_its_own_trace_and_the_oldest_are_forgotten() -> None:
    traces = Traces(remembered=3)
    of = {origin: PARENT[:-2] + b"%02d" % origin for origin in range(5)}
    for origins in ((0, 1), (2, 3, 4)):
        value = encode_traces([(origin, of[origin]) for origin in origins])
        # All partitions are told the same.
        traces.hear([(TRACES, value)])
        traces.hear([(TRACES, value)])
    traces.hear(None)
    traces.hear([(TRACES, b"of another program")])
    assert [traces.of(origin) for origin in range(6)] == [None, None, of[2], of[3], of[4], None]


def test_what_was_not_written_so_is_nothing() -> None:
    assert decode_traces(b"x") == {}
