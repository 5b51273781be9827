"""Paths whose ids hold a slash."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class UndecodedPaths:
    """Routes by the path as it was sent: an id may hold a slash, as %2F, and is decoded where it is used."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw:
            scope = {**scope, "path": raw.decode("ascii", "replace")}
        await self._app(scope, receive, send)
