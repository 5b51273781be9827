"""Why a worker cannot go on where a log does not hold what comes next."""

from faust.types import TP

from stream_tgat.errors import LostDataError


def cut_short(tp: TP, end: int, expected: int) -> LostDataError:
    """A log ends before the offset that is the next to read."""
    return LostDataError(
        f"{tp.topic}/{tp.partition} ends at offset {end}, but offset {expected} is the next to read: the topic was "
        "truncated or made anew; start with a new application id, or restore the topic"
    )


def deleted_unread(tp: TP, expected: int, begin: int) -> LostDataError:
    """A log begins behind the offset that is the next to read."""
    return LostDataError(
        f"{tp.topic}/{tp.partition}: offsets {expected} to {begin - 1} were deleted before they were read, by the "
        f"topic's retention or by hand: it begins at offset {begin} now. To go on, use another kafka.topic_prefix and "
        "replay the log; and let the topic keep its records for longer than a worker may be behind."
    )
