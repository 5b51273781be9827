"""Which letters are chosen and shown, and which records would be sent again."""

from __future__ import annotations

import time

import click
import pytest

from stream_tgat.commands.dead_letters import FoundLetter, LetterFilter, _Moment, as_object
from stream_tgat.commands.resending import Resending
from stream_tgat.topology import Topology
from stream_tgat.wire import Letter

TOPOLOGY = Topology.model_validate({"name": "test", "kafka": {"topic_prefix": "shop-"}})
GOOD = b'{"user": "ann", "item": "tea", "timestamp": 5}'


def letter(value: bytes | None = GOOD, topic: str = "shop-interactions", offset: int = 7, **changed: object) -> Letter:
    whole = {
        "reason": "field 'price' must be a number, not 'x'", "topic": topic, "partition": 3, "offset": offset,
        "written": 1.5, "key": b"ann", "value": value, "headers": (), "size": None,
    }  # fmt: skip
    return Letter(**(whole | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (LetterFilter(), True),
        (LetterFilter(reason="FIELD 'Price'"), True),
        (LetterFilter(reason="cost"), False),
        (LetterFilter(topic="interactions"), True),
        (LetterFilter(topic="labels"), False),
        (LetterFilter(since=100.0), True),
        (LetterFilter(since=100.5), False),
        (LetterFilter(until=100.0), False),
        (LetterFilter(until=100.5), True),
    ],
)
def test_letters_are_chosen_by_reason_topic_and_time(wanted: LetterFilter, taken: bool) -> None:
    assert wanted.takes(letter(), 100.0, TOPOLOGY) is taken


def test_moment_is_a_time_or_how_long_ago() -> None:
    moment = _Moment()
    assert moment.convert("1970-01-02T00:00:00Z", None, None) == 86_400.0
    assert time.time() - moment.convert("2h", None, None) == pytest.approx(7_200, abs=5)
    with pytest.raises(click.BadParameter, match="or how long ago"):
        moment.convert("yesterday", None, None)


def test_letter_as_json_keeps_every_byte() -> None:
    shown = as_object(FoundLetter(letter(b"\xff\x00", headers=(("trace", b"1"), ("none", None))), 100.0))  # type: ignore[arg-type]
    assert (shown["value_base64"], shown["key"], shown["written"], shown["refused"]) == ("/wA=", "ann", 1.5, 100.0)
    assert shown["headers"] == [{"name": "trace", "value": "1"}, {"name": "none", "value": None}]
    assert "truncated" not in shown
    assert as_object(FoundLetter(letter(size=9), 100.0))["truncated"] == 9


def test_what_would_be_refused_again_or_is_not_whole_is_left_out_and_counted() -> None:
    with Resending(TOPOLOGY, check=True, anyway=False) as resending:
        for each in (
            letter(),
            letter(),  # the same record: a letter may come twice
            letter(offset=20, headers=(("first-place", b"shop-interactions/3/000000000007"),)),  # once more in vain
            letter(b"{", offset=8),
            letter(size=5_000_000, offset=9),
            letter(topic="elsewhere"),
            letter(b'{"node": "ann", "label": "x", "value": 1, "timestamp": 5}', topic="shop-labels"),
            letter(None, offset=10),
        ):
            resending.take(each)
    assert (resending.taken, resending.sent, resending.left_out.bad) == (6, 2, 4)
    told = [example for _, examples in resending.left_out.kinds.values() for example in examples]
    assert told[0].startswith("shop-interactions/3/8: not valid JSON")
    assert told[1:3] == [
        (
            "shop-interactions/3/9: the record has 5,000,000 bytes; only the beginning was kept, so it cannot be sent "
            "again"
        ),
        "elsewhere/3/7: topic elsewhere is not one that this topology reads",
    ]
    assert told[3].startswith("shop-interactions/3/10: null record")


def test_all_but_what_is_not_whole_is_sent_anyway_when_asked() -> None:
    with Resending(TOPOLOGY, check=True, anyway=True) as resending:
        for each in (letter(b"{"), letter(size=5_000_000, offset=9), letter(topic="elsewhere")):
            resending.take(each)
    assert (resending.sent, resending.left_out.bad) == (1, 2)
