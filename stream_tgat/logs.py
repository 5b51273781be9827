"""The log of a worker: one line an event, as text or as JSON, of this package and of what is amiss elsewhere.

Libraries tell each of their steps at level INFO, some in tables over many lines, and Faust does so in the name of
classes that are made from its own; below WARNING they are heard only where that is asked for (`faust -l debug`).
"""

import logging
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import orjson

LogFormat = Literal["text", "json"]

PACKAGE: Final = "stream_tgat"
_OUR_CODE: Final = str(Path(__file__).parent)
#: How Faust begins what one of its services says.
_SERVICE: Final = re.compile(r"^\[\^[^\]]*\]: ")
#: Libraries that write about each of their steps.
_TALKATIVE: Final = ("aiokafka", "faust", "kafka", "mode", "asyncio")
_LEVELS: Final = {logging.CRITICAL: "ERROR"}


class TextFormatter(logging.Formatter):
    """2026-01-02 03:04:05.678 INFO    Caught up after 3 s; a traceback follows in lines of its own.

    prefix: of each message, where several processes write to one place
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback of what was not expected."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = f"{stamp}.{int(record.msecs):03} {_level(record):7} {self._prefix}{_in_one_line(record)}"
        trace = _traceback(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """An object with time (UTC), level, logger, message, process, and exception where there is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _level(record).lower(),
            "logger": record.name,
            "message": _in_one_line(record),
            "process": record.process,
        }
        trace = _traceback(self, record)
        return orjson.dumps(content | ({"exception": trace} if trace else {}), default=str).decode()


def begin(wanted: LogFormat, level: int, file: str | None = None, prefix: str = "") -> logging.Handler:
    """Let all that is logged go to a file, or to standard error, from now on; returns what writes it.

    level: asked for by the user. This package is heard from INFO on, libraries from WARNING on; below that, as asked.
    prefix: of each message in lines for people
    """
    handler: logging.Handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(_formatter(wanted, prefix))
    if level >= logging.INFO:
        handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.pathname.startswith(_OUR_CODE))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(min(level, logging.WARNING) if level < logging.INFO else logging.WARNING)
    logging.getLogger(PACKAGE).setLevel(min(level, logging.INFO))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(level if level < logging.INFO else logging.WARNING)
    # Timers tell that they were late, which on a busy machine they are.
    logging.getLogger("mode.timers").setLevel(logging.ERROR)
    return handler


def one_line(wanted: LogFormat, level: int, message: str) -> str:
    """A line of this format for what is told when logging has not begun, or has ended."""
    record = logging.LogRecord(PACKAGE, level, "", 0, message, None, None)
    return _formatter(wanted).format(record)


def _formatter(wanted: LogFormat, prefix: str = "") -> logging.Formatter:
    return JsonFormatter() if wanted == "json" else TextFormatter(prefix)


def _level(record: logging.LogRecord) -> str:
    return _LEVELS.get(record.levelno, record.levelname)


def _in_one_line(record: logging.LogRecord) -> str:
    return _SERVICE.sub("", " ".join(record.getMessage().split("\n"))).strip()


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
