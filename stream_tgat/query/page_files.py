"""The page at `/`: files of this package and plotly's bundle as its package carries it, and headers that bind it.

Nothing is fetched from elsewhere, and the headers see to it. Scripts are files, and none is made of text. Plotly sets
styles: of elements, by their attributes, which is allowed; of its own style sheets each is allowed by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def _bundle() -> Path:
    """Plotly's JavaScript; the package is not imported, which takes long."""
    found = importlib.util.find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"


FOLDER: Final = Path(__file__).with_name("page")
PLOTLY: Final = _bundle()
_DAY_S: Final = 86_400


def add_page(service: FastAPI) -> None:
    """Serve the page; what is added after it is not reached."""

    @service.get("/plotly.min.js", include_in_schema=False)
    def plotly() -> FileResponse:
        return FileResponse(PLOTLY, headers={"cache-control": f"public, max-age={_DAY_S}"})

    service.mount("/", StaticFiles(directory=FOLDER, html=True), name="page")


class SecurityHeaders:
    """Adds headers to all answers: what the page may load and do, and that answers are no page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        headers = {
            "content-security-policy": _policy(),
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=()",
            "cache-control": "no-cache",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = message["headers"]
                names = {name for name, _ in there}
                message["headers"] = [*there, *(each for each in self._headers if each[0] not in names)]
            await send(message)

        await self._app(scope, receive, sent if scope["type"] == "http" else send)


@cache
def _policy() -> str:
    styles = " ".join(f"'sha256-{_hash(style)}'" for style in ("", *_styles()))
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' {styles}",
            "style-src-attr 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "font-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


def _styles() -> list[str]:
    """Style sheets that the bundle adds as it is loaded."""
    return re.findall(r"\.textContent=`([^`$\\]*)`", PLOTLY.read_text())


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
