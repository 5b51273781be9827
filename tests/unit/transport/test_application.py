"""Handing partitions over, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio

import pytest
from faust.types import TP

from stream_tgat.transport import Application

MINE = frozenset({TP("numbers", 0)})


class Listener:
    """Notes what it is told, and fails at it if it has a reason to."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.revoked: list[frozenset[TP]] = []

    async def on_recovered(self, tps: frozenset[TP]) -> None:
        """Nothing to do."""

    async def on_revoked(self, tps: frozenset[TP]) -> None:
        self.revoked.append(tps)
        if self.problem is not None:
            raise self.problem


def test_listener_that_fails_on_revocation_keeps_no_other_from_its_last_commit() -> None:
    listeners = [Listener(), Listener(OSError("disk full")), Listener(), Listener(OSError("another"))]

    async def run() -> Application:
        app = Application("app", broker="kafka://127.0.0.1:1")
        for listener in listeners:
            app.add_listener(listener)
        app._recovered = MINE
        with pytest.raises(OSError, match="disk full"):
            await app._revoke()
        return app

    app = asyncio.run(run())
    assert [listener.revoked for listener in listeners] == [[MINE]] * 4
    assert not app.fence.is_open
