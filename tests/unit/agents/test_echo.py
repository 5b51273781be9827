"""What a worker wrote itself is read at once, and only in the order of the log."""

from __future__ import annotations

from stream_tgat.agents.echo import Echo, Echoed


def _offsets(echo: Echo) -> list[int]:
    return [record.offset for record in echo.take(0)]


def test_records_are_taken_when_they_come_next() -> None:
    echo = Echo()
    echo.open(0, 5)
    assert not echo.hear(0, Echoed(6, b"six"))
    assert echo.take(0) == []
    assert echo.hear(0, Echoed(5, b"five"))
    assert echo.take(0) == [Echoed(5, b"five"), Echoed(6, b"six")]
    assert echo.take(0) == []


def test_what_others_wrote_in_between_comes_from_the_log() -> None:
    echo = Echo()
    echo.open(0, 0)
    for offset in (0, 2, 3):
        echo.hear(0, Echoed(offset, b"mine"))
    assert _offsets(echo) == [0]
    echo.read(0, 0)
    assert _offsets(echo) == []
    echo.read(0, 1)
    assert _offsets(echo) == [2, 3]


def test_what_was_read_is_not_taken_again() -> None:
    echo = Echo()
    echo.open(0, 0)
    echo.hear(0, Echoed(1, b"mine"))
    echo.read(0, 0)
    echo.read(0, 1)
    assert not echo.hear(0, Echoed(0, b"late news"))
    assert _offsets(echo) == []
    assert echo.hear(0, Echoed(2, b"mine"))
    assert _offsets(echo) == [2]


def test_partition_of_another_worker_is_not_kept() -> None:
    echo = Echo()
    assert not echo.hear(0, Echoed(0, b"theirs"))
    echo.open(0, 0)
    echo.hear(0, Echoed(0, b"mine"))
    echo.close(0)
    echo.open(0, 0)
    assert _offsets(echo) == []
