"""Records of a data set in the order in which a producer would have sent them."""

from collections.abc import Iterable, Iterator
from heapq import merge
from math import nextafter

from stream_tgat.datasets.stream import StreamRecord, punctuation


def punctuated(interactions: Iterable[StreamRecord], every_s: float) -> Iterator[StreamRecord]:
    """The interactions with a punctuation after each `every_s` seconds of event time, and one after the last.

    A punctuation carries the time of the next interaction, the largest that is true; the last one lies just above the
    last interaction, so that nothing is left waiting.
    """
    last: StreamRecord | None = None
    due = float("-inf")
    for each in interactions:
        if last is not None and each.time >= due and each.time > last.time:
            yield punctuation(each.time)
            due = each.time + every_s
        elif last is None:
            due = each.time + every_s
        yield each
        last = each
    if last is not None:
        yield punctuation(nextafter(last.time, float("inf")))


def interleave(*streams: Iterable[StreamRecord]) -> Iterator[StreamRecord]:
    """Sorted streams as one sorted stream; at equal times the earlier argument first."""
    return merge(*streams, key=lambda each: each.time)
