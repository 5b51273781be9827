"""The thread of the Kafka client, with no client in it."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from stream_tgat.errors import LostDataError
from stream_tgat.transport import Application, client
from stream_tgat.transport.client import BulkConsumerThread
from stream_tgat.transport.pacing import FULL_BYTES, SHARE, SHORTEST_S, Pacer


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


@pytest.mark.parametrize(
    ("spent_s", "size", "linger_s", "wait_s"),
    [
        (0.0, 100, 0.04, SHORTEST_S),
        (0.02 * SHARE, 100, 0.04, 0.02),
        (1.0, FULL_BYTES - 1, 0.04, 0.04),
        (1.0, FULL_BYTES - 1, 0.015, 0.015),
        (1.0, FULL_BYTES - 1, 0.0, 0.0),
        (1.0, FULL_BYTES, 0.04, 0.0),
    ],
)
def test_next_fetch_waits_until_what_the_last_has_cost_is_its_share_of_a_core_and_no_longer_than_records_may_linger(
    spent_s: float, size: int, linger_s: float, wait_s: float
) -> None:
    pacer = Pacer(linger_s)
    assert pacer.wait_s(0.0) <= 0
    pacer.fetched(10.0, 5.0, 100)
    pacer.fetched(20.0, 5.0 + spent_s, size)
    assert pacer.wait_s(20.0) == pytest.approx(wait_s)
    assert pacer.wait_s(20.1) <= 0


class State:
    """Where the client is in a partition."""

    has_valid_position = True

    def __init__(self, position: int) -> None:
        self.position = position

    def seek(self, position: int) -> None:
        self.position = position


class Fetcher:
    """The client's own loop, as far as it is asked; `sent` are the positions that it has fetched from."""

    def __init__(self) -> None:
        self._in_flight: set[int] = set()
        self._records: dict[TP, object] = {}
        self.sent: list[dict[TP, int]] = []

    def _get_actions_per_node(self, assignment: Any) -> tuple[Any, ...]:
        self.sent.append({tp: state.position for tp, state in assignment.tps.items()})
        return ["fetch"], {}, 0.2, False, []


def test_client_passes_over_what_was_heard_unless_it_has_it_under_way() -> None:
    app = Application("t", broker="kafka://127.0.0.1:1")
    thread, fetcher = app.consumer._thread, Fetcher()
    thread.thread_loop.close()
    a, b, c = (TP("t", number) for number in range(3))
    assignment = SimpleNamespace(tps={tp: State(5) for tp in (a, b, c)})
    assignment.state_value = assignment.tps.get
    thread._pace(fetcher)
    for tp, end in ((a, 9), (b, 3), (TP("t", 7), 9)):
        app.consumer.positions.seek(tp, 2)
        app.consumer.positions.hear(tp, end)
    look: Any = fetcher._get_actions_per_node
    app.rebalancing = False
    fetcher._in_flight = {0}
    look(assignment)
    fetcher._in_flight, fetcher._records = set(), {a: object()}
    look(assignment)
    fetcher._records = {}
    app.rebalancing = True
    look(assignment)
    assert fetcher.sent == [{a: 5, b: 5, c: 5}] * 3
    app.rebalancing = False
    assert look(assignment)[0] == ["fetch"]
    assert fetcher.sent[3:] == [{a: 9, b: 5, c: 5}]


def test_client_sends_no_fetch_before_its_time() -> None:
    app = Application("t", broker="kafka://127.0.0.1:1")
    thread, fetcher = app.consumer._thread, Fetcher()
    thread.thread_loop.close()
    thread._pace(fetcher)
    look: Any = fetcher._get_actions_per_node
    thread._pacer._begins = float("inf")
    assert look(SimpleNamespace(tps={})) == ([], {}, float("inf"), False, [])
    assert fetcher.sent == []


@pytest.mark.parametrize(
    ("generation", "heartbeat_age_s", "ends"), [(-1, 1.0, True), (-1, 9.5, False), (7, 1.0, False)]
)
def test_static_member_ends_when_its_place_is_taken_before_its_session_is_over(
    monkeypatch: pytest.MonkeyPatch, generation: int, heartbeat_age_s: float, *, ends: bool
) -> None:
    app = Application("t", broker="kafka://127.0.0.1:1", broker_session_timeout=10.0, consumer_group_instance_id="w-1")
    thread = app.consumer._thread
    thread.thread_loop.close()
    app.fence.beat(time.monotonic() - heartbeat_age_s)
    said: list[tuple[int, str]] = []
    monkeypatch.setattr(client, "end", lambda status, line: said.append((status, line)))
    thread._end_if_replaced(SimpleNamespace(generation=generation))
    assert [status for status, _ in said] == [1] * ends
    assert all("another worker has joined as w-1" in line for _, line in said)
