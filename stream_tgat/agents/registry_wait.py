"""Waiting for a schema registry that does not answer, as for brokers: told in the log now and then, for ever."""

import asyncio
import logging
import time
from typing import Final

_log = logging.getLogger(__name__)

SAY_EVERY_S: Final = 5.0
_PAUSE_S: Final = 0.5


class RegistryWait:
    """One agent's wait."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._said_at = -float("inf")

    async def pause(self, problem: Exception) -> None:
        """Wait for a moment; say now and then why. problem: what came of asking"""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            _log.warning("%s: nothing that needs it is read, for %.0f s", problem, now - self._since)
        await asyncio.sleep(_PAUSE_S)

    def over(self) -> None:
        """Note that it answers."""
        if self._since is not None:
            _log.warning("The schema registry answers after %.0f s", time.monotonic() - self._since)
            self._since, self._said_at = None, -float("inf")
