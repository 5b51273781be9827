"""Watching that the brokers are there: a worker without them stops taking part, and begins anew to wait for them.

The clients go on trying for as long as they live, and with them what they have under way. Once no commit could begin
any more (see the fence) nothing of that may reach the log later, and nothing of it is needed: so the process is
replaced by a new one, which waits for the brokers before it makes any client, and then starts as after a crash.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka.errors import KafkaError

from stream_tgat.errors import AccessError, FencedError, StalledError, StreamTgatError, TopicError
from stream_tgat.transport.process import begin_anew, end

_log = logging.getLogger(__name__)

#: Heartbeats are a second apart.
SUSPICIOUS_S: Final = 2.5
SAY_EVERY_S: Final = 5.0
#: What fails so soon after an outage may still be the outage's doing: requests time out late.
AFTERMATH_S: Final = 60.0
#: A worker that was asked to stop has ten seconds, and does not spend them on waiting for brokers.
STOPPING_S: Final = 4.0
_LOOK_S: Final = 1.0


class BrokerWatch:
    """Looks from a thread of its own, since the event loop may wait for the brokers too.

    ask: why no broker answers, None if one does; asked only when no heartbeat has come lately
    begin_anew, end: what replaces and what ends the process
    """

    def __init__(
        self,
        app: Any,
        ask: Callable[[], str | None],
        *,
        begin_anew: Callable[[str], object] = begin_anew,
        end: Callable[[int, str], object] = end,
    ) -> None:
        self._app = app
        self._ask = ask
        self._begin_anew = begin_anew
        self._end = end
        self._answered_at = time.monotonic()
        self._silent_since: float | None = None
        self._silent_last = -float("inf")
        self._said_at = -float("inf")
        self._reason: str | None = None
        self._has_met = False

    @property
    def silence(self) -> str | None:
        """Why no broker answers; None while one does."""
        return self._reason

    def start(self) -> None:
        """Watch until the process ends."""
        self._answered_at = time.monotonic()
        threading.Thread(target=self._watch, name="broker-watch", daemon=True).start()

    def look(self) -> None:
        """Find out whether the brokers are there, and begin anew when they have been silent for too long."""
        now = time.monotonic()
        unheard_s = min(self._app.fence.heartbeat_age_s, now - self._answered_at)
        self._reason = self._ask() if unheard_s > SUSPICIOUS_S else None
        if self._reason is None:
            self._hear(now, asked=unheard_s > SUSPICIOUS_S)
            return
        if self._silent_since is None:
            self._silent_since = now - unheard_s
        self._silent_last = now
        silent_s = now - self._silent_since
        if now - self._said_at >= SAY_EVERY_S:
            _log.warning("%s for %.0f s: nothing is read or committed", self._reason, silent_s)
            self._said_at = now
        if self._app.crashed:
            # What has failed for another reason ends the worker, by Faust or by the watchdog.
            if _may_come_of_silence(self._app.crash_reason):
                self._begin_anew(self._reason)
        elif self._app.should_stop:
            if silent_s > STOPPING_S:
                self._end(0, f"{self._reason}: ended without them, what was not committed is done again")
        elif silent_s > self._app.fence.heartbeat_limit_s:
            self._begin_anew(self._reason)

    def is_to_blame(self, error: BaseException) -> bool:
        """Whether the worker may have failed for want of a broker, after it had found one."""
        if not self._has_met or not _may_come_of_silence(error):
            return False
        lately = time.monotonic() - self._silent_last < AFTERMATH_S
        return (lately and isinstance(error, KafkaError)) or self._ask() is not None

    def meet(self) -> None:
        """Note that a broker has answered: from here on its absence is an outage."""
        self._has_met = True

    def _hear(self, now: float, *, asked: bool) -> None:
        if asked:
            self._answered_at = now
        if self._silent_since is not None:
            _log.warning("The brokers answer again after %.0f s", now - self._silent_since)
            self._silent_since, self._said_at = None, -float("inf")

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            self.look()


def _may_come_of_silence(error: BaseException | None) -> bool:
    """Whether waiting for a broker may mend it; most errors of ours say what is wrong whether there is one or not."""
    return not isinstance(error, StreamTgatError) or isinstance(
        error, AccessError | FencedError | StalledError | TopicError
    )
