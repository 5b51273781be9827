"""Traces go from the headers of input records to those of what comes of them, each to its own."""

from __future__ import annotations

import pytest

from stream_tgat.message_passing.traces import Traces
from stream_tgat.wire.traces import LONGEST_STATE, TRACES, Trace, decode_traces, encode_traces, trace_of

# The example of the W3C recommendation.
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


def test_trace_is_taken_as_it_is_sent() -> None:
    assert trace_of([("content-type", b"application/json"), ("traceparent", PARENT)]) == Trace(PARENT)
    assert trace_of({"Traceparent": PARENT, "Tracestate": STATE}) == Trace(PARENT, STATE)
    assert trace_of(None) is None
    assert trace_of([("content-type", b"application/json")]) is None
    assert trace_of([("tracestate", STATE)]) is None


def test_state_that_is_too_long_is_left_behind() -> None:
    longest = b"a=" + b"1" * (LONGEST_STATE - 2)
    assert trace_of([("traceparent", PARENT), ("tracestate", longest)]) == Trace(PARENT, longest)
    assert trace_of([("traceparent", PARENT), ("tracestate", longest + b"1")]) == Trace(PARENT)


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
def test_trace_of_another_form_is_none(damaged: bytes) -> None:
    assert trace_of([("traceparent", damaged), ("tracestate", STATE)]) is None


def test_each_interaction_finds_its_own_trace_and_the_oldest_are_forgotten() -> None:
    traces = Traces(remembered=3)
    of = {origin: Trace(PARENT[:-2] + b"%02d" % origin, STATE[: 3 * origin]) for origin in range(5)}
    for origins in ((0, 1), (2, 3, 4)):
        value = encode_traces([(origin, of[origin]) for origin in origins])
        # All partitions are told the same.
        traces.hear([(TRACES, value)])
        traces.hear([(TRACES, value)])
    traces.hear(None)
    traces.hear([(TRACES, b"of another program")])
    assert [traces.of(origin) for origin in range(6)] == [None, None, of[2], of[3], of[4], None]


@pytest.mark.parametrize("state", [b"", STATE, STATE * 13])
def test_what_is_read_was_written_up_to_what_one_record_may_carry(state: bytes) -> None:
    traces = [(origin, Trace(PARENT, state)) for origin in range(2000)]
    value = encode_traces(traces)
    found = decode_traces(value)
    assert list(found.items()) == traces[: len(found)]
    assert 60_000 - 65 - len(state) < len(value) <= 60_000


@pytest.mark.parametrize("damaged", [b"x", b"x" * 65, encode_traces([(7, Trace(PARENT, STATE))])[:-1]])
def test_what_was_not_written_so_is_nothing(damaged: bytes) -> None:
    assert decode_traces(damaged) == {}
