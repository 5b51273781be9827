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


def _warn(line: str) -> None:
    _log.warning("%s", line)


class RegistryWait:
    """Tells that the registry does not answer, for how long, and when it does. say: is given the lines"""

    def __init__(self, say: Callable[[str], object] = _warn) -> None:
        self._say = say
        self._since: float | None = None
        self._said_at = -float("inf")

    async def pause(self, problem: Exception) -> None:
        """Wait for a moment; say now and then why. problem: what came of asking"""
        self._tell(problem)
        await asyncio.sleep(_PAUSE_S)

    def block(self, problem: Exception) -> None:
        """The same where no event loop runs."""
        self._tell(problem)
        time.sleep(_PAUSE_S)

    def over(self) -> None:
        """Note that it answers."""
        if self._since is not None:
            self._say(f"The schema registry answers after {time.monotonic() - self._since:.0f} s")
            self._since, self._said_at = None, -float("inf")

    def _tell(self, problem: Exception) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            self._say(f"{problem}: nothing that needs it is read, for {now - self._since:.0f} s")


def registered_outputs(topology: Topology, say: Callable[[str], object]) -> OutputSchemas | None:
    """The ids of the schemas of what workers write, once the registry has them; None where it is not Avro.

    `say` is given a line now and then while the registry does not answer. SettingsError if it refuses a schema,
    AccessError if it does not let this client in.
    """
    wait = RegistryWait(say)
    while True:
        try:
            found = register_output_schemas(topology)
        except UnreachableRegistryError as problem:
            wait.block(problem)
        else:
            wait.over()
            return found
