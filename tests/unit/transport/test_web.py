"""The page before Faust's: whoever supervises a worker learns that it lives and that it is not ready."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from broker import free_port
from yarl import URL

from stream_tgat.errors import SettingsError
from stream_tgat.transport import Application
from stream_tgat.transport.web import STARTING, StartingPage


def _conf(port: int, **settings: Any) -> Any:
    conf = Application("page", broker="kafka://127.0.0.1:1", web_port=port, **settings).conf
    conf.web_enabled = True
    return conf


def _get(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        return int(error.code), json.load(error)


def test_starting_worker_lives_and_is_not_ready_and_frees_the_port_for_faust() -> None:
    port, page = free_port(), StartingPage()
    for _ in range(2):
        with page.shown(_conf(port)):
            assert _get(port, "/") == _get(port, "/livez") == (200, {"status": "OK"})
            assert _get(port, "/readyz") == (503, {"ready": False, "reason": STARTING})
            page.reason = "no broker"
            assert _get(port, "/metrics") == (503, {"ready": False, "reason": "no broker"})
            page.reason = STARTING
    with pytest.raises(OSError, match="refused"):
        _get(port, "/")


@pytest.mark.parametrize("settings", [{"web_transport": URL("unix:///nowhere")}, {}])
def test_page_is_not_shown_where_faust_listens_otherwise_or_not_at_all(settings: dict[str, Any]) -> None:
    conf = _conf(free_port(), **settings)
    conf.web_enabled = bool(settings)
    with StartingPage().shown(conf), pytest.raises(OSError, match="refused"):
        _get(conf.web_port, "/")


def test_taken_port_is_told_in_a_sentence_before_and_after_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = rf"cannot listen at 127\.0\.0\.1:{port} \(.*in use.*\); choose another port with --web-port"
        with pytest.raises(SettingsError, match=told), StartingPage().shown(_conf(port)):
            pass

        async def start() -> None:
            web = Application("page", broker="kafka://127.0.0.1:1", web_port=port).web
            try:
                await web.start_server()
            finally:
                await web.stop_server()

        with pytest.raises(SettingsError, match=told):
            asyncio.run(start())
