"""Which offset comes next, and up to where all is done with."""

from __future__ import annotations

from types import SimpleNamespace

from faust.types import TP

from stream_tgat.transport.positions import Positions

HERE = TP("t", 0)


def records(*offsets: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(offset=offset) for offset in offsets]


def test_what_was_heard_is_not_handed_on_again_and_counts_as_done_with_the_rest() -> None:
    positions = Positions()
    positions.seek(HERE, 3)
    positions.handed_on(HERE, records(3, 4), acknowledged_later=True)
    positions.hear(HERE, 9)
    assert positions.fresh(HERE, records(5, 8, 9)) == (records(9), 0)
    positions.handed_on(HERE, records(9), acknowledged_later=True)
    assert positions.committable(HERE, {3}) == 4
    positions.acknowledge_to(HERE, 7)
    # The record at 8 was heard, and only what is before 5 is known to be handed on and done.
    assert positions.committable(HERE, set()) == 5
    positions.acknowledge_to(HERE, 8)
    assert positions.committable(HERE, set()) == 9
    assert positions.committable(HERE, {9}) == 10
    assert positions.committable(HERE, set()) is None


def test_what_was_heard_counts_only_from_where_reading_is_and_until_it_is_sought_anew() -> None:
    positions = Positions()
    positions.hear(HERE, 9)
    assert positions.next(HERE) is None
    positions.seek(HERE, 3)
    positions.hear(HERE, 2)
    assert (positions.next(HERE), positions.heard) == (3, {})
    positions.hear(HERE, 9)
    positions.acknowledge_to(HERE, 8)
    positions.seek(HERE, 4)
    assert (positions.next(HERE), positions.heard) == (4, {})
    positions.handed_on(HERE, records(4), acknowledged_later=True)
    assert positions.committable(HERE, set()) is None
