"""The web page before Faust serves it, and whether a worker is ready, for whoever supervises it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from faust.web.drivers import aiohttp as driver

from stream_tgat.errors import SettingsError

STARTING: Final = "the worker is starting"
_OK: Final = 200
_UNAVAILABLE: Final = 503
_ALIVE: Final = {"status": "OK"}
#: What says only that the process lives: "/" is Faust's own.
_OF_LIFE: Final = ("", "/livez")


class Web(driver.Web):
    """Faust's web server, which tells in a sentence that its port is taken."""

    async def start_server(self) -> None:
        """Listen."""
        try:
            await super().start_server()
        except OSError as problem:
            conf = self.app.conf
            raise _not_listening(conf.web_bind, conf.web_port, problem) from problem


async def show_life(view: Any, request: Any) -> Any:  # noqa: ARG001
    """The page that answers as long as the event loop goes round; one that hangs is ended by the watchdog."""
    return view.json(_ALIVE)


async def show_readiness(view: Any, request: Any) -> Any:  # noqa: ARG001
    """The page that says whether the worker is recovered, caught up and hears a broker: 200, or 503 with the reason."""
    reason = view.app.why_not_ready()
    return view.json(_content(reason), status=_OK if reason is None else _UNAVAILABLE)


def shows(page: Callable[[str], tuple[bytes, str]]) -> Any:
    """A page of Faust's web server. page: its content and content type, for the header `Accept` of a request"""

    async def show(view: Any, request: Any) -> Any:
        content, content_type = page(request.headers.get("Accept", ""))
        return view.bytes(content, headers={"Content-Type": content_type})

    return show


def _content(reason: str | None) -> dict[str, Any]:
    return {"ready": reason is None} | ({} if reason is None else {"reason": reason})


class StartingPage:
    """What answers at the port of the web page until Faust does: alive, and not ready."""

    def __init__(self) -> None:
        self.reason = STARTING

    @contextmanager
    def shown(self, conf: Any) -> Iterator[None]:
        """Answer inside of the block; SettingsError if the port is taken. Nothing where Faust would not listen."""
        if not conf.web_enabled or conf.web_transport.scheme != "tcp" or conf.web_ssl_context is not None:
            yield
            return
        try:
            server = ThreadingHTTPServer((str(conf.web_bind), int(conf.web_port)), self._handler())
        except OSError as problem:
            raise _not_listening(conf.web_bind, conf.web_port, problem) from problem
        with server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="starting-page", daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_of_life = self.path.rstrip("/") in _OF_LIFE
                content = json.dumps(_ALIVE if is_of_life else _content(page.reason)).encode()
                self.send_response(_OK if is_of_life else _UNAVAILABLE)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Say nothing."""

        return Handler


def _not_listening(bind: str, port: int, problem: OSError) -> SettingsError:
    return SettingsError(
        f"the web page cannot listen at {bind}:{port} ({problem.strerror or problem}); choose another port with "
        "--web-port, or none with --without-web"
    )
