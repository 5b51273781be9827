"""Each event is one line, for people or for machines, and libraries are silent about their steps."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import stream_tgat
from stream_tgat.logs import begin, one_line


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Loggers are of the whole process."""
    names = ("", "stream_tgat", "aiokafka", "faust", "kafka", "mode", "asyncio")
    levels, handlers = {name: logging.getLogger(name).level for name in names}, logging.root.handlers[:]
    yield
    for made in logging.root.handlers:
        if made not in handlers:
            made.close()
    logging.root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


OURS, THEIRS = str(Path(stream_tgat.__file__).parent / "worker.py"), "/lib/faust/worker.py"


def _tell() -> None:
    """As this package, and as Faust: in a name of its own, and in that of a class made from one of its own."""
    error = ValueError("broken\nin two")
    for name, place, level, message, problem in (
        ("stream_tgat.agents", OURS, logging.DEBUG, "a detail", None),
        ("stream_tgat.agents", OURS, logging.INFO, "a table:\n+--+\n|a |", None),
        ("stream_tgat.transport", THEIRS, logging.INFO, "[^---BulkRecovery]: Starting...", None),
        ("faust.worker", THEIRS, logging.INFO, "Ready", None),
        ("stream_tgat.transport", THEIRS, logging.WARNING, "[^---BulkRecovery]: amiss", None),
        ("stream_tgat.agents", OURS, logging.ERROR, "Failed", (ValueError, error, None)),
    ):
        logger = logging.getLogger(name)
        if logger.isEnabledFor(level):
            logger.handle(logging.LogRecord(name, level, place, 1, message, None, problem))


def test_json_has_an_object_a_line(tmp_path: Path) -> None:
    begin("json", logging.WARNING, file=str(tmp_path / "log"))
    _tell()
    told = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(each["level"], each["logger"], each["message"]) for each in told] == [
        ("info", "stream_tgat.agents", "a table: +--+ |a |"),
        ("warning", "stream_tgat.transport", "amiss"),
        ("error", "stream_tgat.agents", "Failed"),
    ]
    assert told[2]["exception"].splitlines()[-2:] == ["ValueError: broken", "in two"]
    assert told[0]["time"].endswith("+00:00")
    assert "exception" not in told[0]


def test_text_begins_each_event_with_its_time_and_level(tmp_path: Path) -> None:
    begin("text", logging.INFO, file=str(tmp_path / "log"), prefix="Renewal: ")
    _tell()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line[24:] for line in lines[:3]] == [
        "INFO    Renewal: a table: +--+ |a |",
        "WARNING Renewal: amiss",
        "ERROR   Renewal: Failed",
    ]
    assert lines[3:] == ["ValueError: broken", "in two"]


def test_libraries_tell_their_steps_to_whom_asks_for_them(tmp_path: Path) -> None:
    begin("text", logging.DEBUG, file=str(tmp_path / "log"))
    _tell()
    told = (tmp_path / "log").read_text()
    assert "a detail" in told
    assert "Starting..." in told
    assert "Ready" in told


def test_last_words_are_in_the_format_of_the_log() -> None:
    assert json.loads(one_line("json", logging.ERROR, 'Error: "x"'))["message"] == 'Error: "x"'
    assert one_line("text", logging.ERROR, "Error: x").endswith("ERROR   Error: x")
