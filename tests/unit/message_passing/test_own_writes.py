"""What a worker wrote itself is read at once, and only in the order of the log."""

from __future__ import annotations

from stream_tgat.message_passing.own_writes import OwnWrite, OwnWrites


def _offsets(echo: OwnWrites) -> list[int]:
    return [record.offset for record in echo.take()]


def test_records_are_taken_when_they_come_next() -> None:
    echo = OwnWrites(5)
    assert not echo.hear(OwnWrite(6, b"six"))
    assert echo.take() == []
    assert echo.hear(OwnWrite(5, b"five"))
    assert echo.take() == [OwnWrite(5, b"five"), OwnWrite(6, b"six")]
    assert echo.take() == []


def test_what_others_wrote_in_between_comes_from_the_log() -> None:
    echo = OwnWrites(0)
    for offset in (0, 2, 3):
        echo.hear(OwnWrite(offset, b"mine"))
    assert _offsets(echo) == [0]
    echo.read(0)
    assert _offsets(echo) == []
    echo.read(1)
    assert _offsets(echo) == [2, 3]


def test_what_was_read_is_not_taken_again() -> None:
    echo = OwnWrites(0)
    echo.hear(OwnWrite(1, b"mine"))
    echo.read(0)
    echo.read(1)
    assert not echo.hear(OwnWrite(0, b"late news"))
    assert _offsets(echo) == []
    assert echo.hear(OwnWrite(2, b"mine"))
    assert _offsets(echo) == [2]


def test_known_records_are_no_news_and_hide_none_behind_them() -> None:
    echo = OwnWrites(0)
    assert not echo.hear(OwnWrite(2, b"new"))
    assert not echo.hear(OwnWrite(1, b"known", is_known=True))
    assert echo.hear(OwnWrite(0, b"known", is_known=True))
    assert _offsets(echo) == [0, 1, 2]
    assert not echo.hear(OwnWrite(3, b"known", is_known=True))
    assert echo.hear(OwnWrite(4, b"new"))
    assert _offsets(echo) == [3, 4]
