"""The thread of the Kafka client, with no client in it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from stream_tgat.errors import LostDataError
from stream_tgat.transport import Application
from stream_tgat.transport.client import BulkConsumerThread


class Empty(BulkConsumerThread):
    async def on_start(self) -> None:
        pass

    async def on_thread_stop(self) -> None:
        pass


def test_thread_that_a_crash_has_ended_is_stopped_without_an_error() -> None:
    """Its loop is closed by then, and an error of that hides the reason of the crash behind a traceback."""

    async def stop_after_crash() -> Empty:
        app = Application("t", broker="kafka://127.0.0.1:1")
        consumer: Any = SimpleNamespace(transport=SimpleNamespace(app=app), app=app, RebalanceListener=lambda _: None)
        thread = Empty(consumer)
        await thread.start()
        await thread.crash(LostDataError("a reason"))
        while not thread.thread_loop.is_closed():
            await asyncio.sleep(0.01)
        await thread.stop()
        return thread

    assert asyncio.run(asyncio.wait_for(stop_after_crash(), 20))._stopped.is_set()
