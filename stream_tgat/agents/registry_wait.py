"""Waiting for a schema registry that does not answer, as for brokers: told in the log now and then, for ever."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from stream_tgat.errors import UnreachableRegistryError
from stream_tgat.topology import Topology
from stream_tgat.wire import OutputSchemas, register_output_schemas

_log = logging.getLogger(__name__)

SAY_EVERY_S: Final = 5.0
_PAUSE_S: Final = 0.5


def registered_outputs(topology: Topology, say: Callable[[str], object]) -> OutputSchemas | None:
    """The ids of the schemas of what workers write, once the registry has them; None where it is not Avro.

    `say` is given a line now and then while the registry does not answer. SettingsError if it refuses a schema,
    AccessError if it does not let this client in.
    """
    started, said_at = time.monotonic(), -SAY_EVERY_S
    while True:
        try:
            found = register_output_schemas(topology)
        except UnreachableRegistryError as problem:
            waited_s = time.monotonic() - started
            if waited_s - said_at >= SAY_EVERY_S:
                say(f"{problem}: waiting for {waited_s:.0f} s")
                said_at = waited_s
            time.sleep(_PAUSE_S)
            continue
        if said_at >= 0:
            say(f"The schema registry answers after {time.monotonic() - started:.0f} s")
        return found


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
