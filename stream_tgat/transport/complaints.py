"""What clients say each time that they try again: shown if it goes on, and then now and then.

aiokafka writes a hundred lines a second while a broker is away, and one at level ERROR whenever a new group looks for
its coordinator for the first time. A broker that is back within seconds is no news; one that is not is told by
`BrokerWatch`.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

PATIENCE_S: Final = 15.0
EVERY_S: Final = 30.0

#: `extra` of a record that says so of our own attempts.
REPEATED: Final = {"repeated": True}

#: How aiokafka begins what it says of attempts that it repeats.
_REPEATED: Final = (
    "Attempt to fetch offsets",
    "Cannot send",
    "Could not send",
    "Error sending",
    "Failed fetch",
    "Got error produce response",
    "Group Coordinator Request failed",
    "Heartbeat failed for group %s: coordinator",
    "Heartbeat send request failed",
    "Heartbeat session expired",
    "Marking the coordinator dead",
    "Unable connect",
    "Unable to request metadata",
    "Unable to update metadata",
)


class Complaints(logging.Filter):
    """Lets a complaint through when it has been repeated for PATIENCE_S, and then every EVERY_S.

    A complaint is one of those above, or a warning of kafka-python, or a record with `extra=REPEATED`. One that
    was not heard for EVERY_S begins anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        # By text: when it was heard last, and when it may be shown next.
        self._heard: dict[str, tuple[float, float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is shown."""
        text = str(record.msg)
        if not _is_complaint(record, text):
            return True
        now = time.monotonic()
        with self._lock:
            last, show_at = self._heard.get(text, (-EVERY_S, 0.0))
            if now - last > EVERY_S:
                show_at = now + PATIENCE_S
            is_shown = now >= show_at
            self._heard[text] = now, (now + EVERY_S if is_shown else show_at)
        return is_shown


def _is_complaint(record: logging.LogRecord, text: str) -> bool:
    if record.levelno >= logging.CRITICAL:
        return False
    library = record.name.partition(".")[0]
    if library == "kafka":
        return record.levelno >= logging.WARNING
    if record.exc_info:
        return False
    return getattr(record, "repeated", False) or (library == "aiokafka" and text.startswith(_REPEATED))
