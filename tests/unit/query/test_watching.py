"""What the service has seen is told: calls over HTTP, events as they come, and how fast the stream is."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

pytest.importorskip("fastapi", reason="the query service needs the extra `serve`")

import uvicorn

from stream_tgat.message_passing.progress import PartitionProgress
from stream_tgat.query.page_files import FOLDER
from stream_tgat.query.running import _Server
from stream_tgat.query.watching.broadcast import QUEUE, Broadcast
from stream_tgat.query.watching.flow import Flow
from stream_tgat.query.watching.lag import behind_of
from stream_tgat.wire.packets import Block, Source, SourceTopic, encode_blocks
from tests.unit.query.ask import deployment, engine_over
from tests.unit.query.test_service import MODEL, SHOP, STREAM, Client, asking, service_on

U1 = [float(at) for at, key in zip(STREAM.time, STREAM.node.tolist(), strict=True) if key == b"uu1"]


def test_alerts_tell_why_and_whether_they_came_true() -> None:
    async def ask(client: Client, made: Any) -> None:
        told = (await client.get("/v1/alerts", params={"user": "u1", "head": "returns"})).json()
        (alert,) = told["alerts"]
        assert (alert["user"], alert["time"], alert["came_true"], alert["known_at"]) == ("u1", U1[0], True, U1[0] + 9)
        assert alert["because"] == [{"interaction": "p000", "peer": "i1", "time": U1[0] - 5, "weight": 0.75}]
        assert told["raised"] == 1
        assert (await client.get("/v1/alerts", params={"came_true": True})).json()["alerts"] == [alert]
        assert (await client.get("/v1/alerts", params={"came_true": False})).json()["alerts"] == []
        assert (await client.get("/v1/alerts", params={"head": "other"})).json()["alerts"] == []
        assert (await client.get("/v1/alerts", params={"limit": 0})).status_code == 422

    asking(ask)


def test_history_tells_each_moment_with_its_place_on_the_map() -> None:
    async def ask(client: Client, made: Any) -> None:
        before = (await client.get("/v1/nodes/user/u1/history")).json()
        assert [each["time"] for each in before["moments"]] == U1
        assert {each["x"] for each in before["moments"]} == {None}  # nobody has asked for the map
        plane = (await client.get("/v1/map")).json()
        told = (await client.get("/v1/nodes/user/u1/history", params={"limit": 3})).json()
        assert [each["time"] for each in told["moments"]] == U1[-3:]
        assert told["remembered_since"] == 1000.0
        assert told["moments"][-1]["predictions"] == {"returns": 0.25}
        assert told["moments"][0]["moved"] is None
        assert all(0 <= each["moved"] <= 2 for each in told["moments"][1:])
        (place,) = [each for each in plane["places"] if each["id"] == "u1"]
        assert (told["moments"][-1]["x"], told["moments"][-1]["y"]) == pytest.approx((place["x"], place["y"]), abs=1e-4)
        assert (await client.get("/v1/nodes/user/nobody/history")).json()["moments"] == []

    asking(ask)


def test_map_is_as_of_a_time() -> None:
    async def ask(client: Client, made: Any) -> None:
        now, then = [(await client.get("/v1/map", params=params)).json() for params in ({}, {"time": 1001.0})]
        assert (now["since"], now["until"], now["nodes"], now["model"]) == (1000.0, 1059.0, 11, 7)
        assert len(now["places"]) == 11
        early = {key for key, at in zip(STREAM.node.tolist(), STREAM.time.tolist(), strict=True) if at <= 1001.0}
        assert {each["kind"][0].encode() + each["id"].encode() for each in then["places"]} == early
        assert all(each["time"] <= 1001.0 for each in then["places"])
        assert 0 < now["share"] <= 1
        assert len((await client.get("/v1/map", params={"limit": 4})).json()["places"]) == 4

    asking(ask)


def test_names_quality_releases_and_metrics_are_answered() -> None:
    async def ask(client: Client, made: Any) -> None:
        names = (await client.get("/v1/nodes", params={"prefix": "U", "limit": 2})).json()["nodes"]
        assert names == [{"kind": "user", "id": "u0"}, {"kind": "user", "id": "u1"}]
        assert (await client.get("/v1/quality")).json() == {"report": None}
        assert (await client.get("/v1/releases")).json() == {"releases": []}
        page = await client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain")
        assert 'stream_tgat_query_requests_total{call="/v1/nodes",status="200"} 1.0' in page.text
        assert "stream_tgat_query_nodes_remembered 11.0" in page.text

    asking(ask)


def test_all_that_is_no_probe_and_no_file_of_the_page_needs_the_token() -> None:
    async def ask(client: Client, made: Any) -> None:
        paths = ("/v1/alerts", "/v1/map", "/v1/nodes", "/v1/quality", "/v1/releases", "/v1/events", "/metrics")
        for path in (*paths, "/v1/nodes/user/u1/history"):
            assert (await client.get(path)).status_code == 401, path
        for file in ("/", *(f"/{each.name}" for each in FOLDER.iterdir() if each.suffix in (".js", ".css"))):
            assert (await client.get(file)).status_code == 200, file

    asking(ask, token="secret")


def test_page_is_bound_to_what_this_service_serves() -> None:
    async def ask(client: Client, made: Any) -> None:
        for path in ("/", "/plotly.min.js", "/v1/alerts", "/nowhere"):
            answer = await client.get(path)
            policy = dict(each.partition(" ")[::2] for each in answer.headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["connect-src"] == "'self'"
            assert "unsafe" not in policy["style-src"]
            assert policy["frame-ancestors"] == "'none'"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/nowhere")).status_code == 404
        assert "plotly.js" in (await client.get("/plotly.min.js")).text[:100]

    asking(ask)


def test_events_begin_with_how_it_is() -> None:
    async def ask(client: Client, made: Any) -> None:
        answer = await client.get("/v1/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        kind, data, *_ = answer.text.split("\n")
        assert kind == "event: pulse"
        pulse = orjson.loads(data.removeprefix("data: "))
        assert (pulse["event_time"], pulse["alerts"], pulse["model"]) == (1059.0, 1, 7)

    asking(ask)


def test_reader_of_events_does_not_keep_the_service_from_ending() -> None:
    async def run() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                config = uvicorn.Config(service_on(made, events_end=False), log_level="error", lifespan="off")
                server = _Server(config)
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/events"
                async with Client() as client, client.stream("GET", address) as answer:
                    lines = answer.aiter_lines()
                    assert await anext(lines) == "event: pulse"
                    server.should_exit = True
                    await asyncio.wait_for(serving, 20)
                    assert [line async for line in lines if line.startswith("event")] == []

    asyncio.run(run())


def reading(check: Callable[[Broadcast], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(check(Broadcast()), 20)

    asyncio.run(run())


def test_slow_reader_loses_the_oldest_and_is_told_and_others_lose_nothing() -> None:
    async def check(news: Broadcast) -> None:
        slow, fast = news.read(), news.read()
        waiting = [asyncio.create_task(anext(each)) for each in (slow, fast)]
        await asyncio.sleep(0)
        got = []
        for number in range(QUEUE + 11):
            news.send("n", str(number))
            if number == 0:
                assert await waiting[0] == ("n", "0")
                got.append(await waiting[1])
            else:
                got.append(await anext(fast))
        assert got == [("n", str(number)) for number in range(QUEUE + 11)]
        rest = [await anext(slow) for _ in range(QUEUE + 1)]
        assert rest[0] == ("lost", "10")
        assert rest[1:] == [("n", str(number)) for number in range(11, QUEUE + 11)]
        assert (news.readers, news.lost) == (2, 10)
        news.close()
        assert [each async for each in slow] == []
        await fast.aclose()  # type: ignore[attr-defined]
        assert news.readers == 0

    reading(check)


def test_latency_is_joined_whichever_end_comes_first() -> None:
    flow, now = Flow(), time.time()
    flow.written("a", now - 2.0)
    flow.embedded("a", now - 1.5)
    flow.embedded("b", now - 1.4)
    flow.written("b", now - 2.4)
    flow.embedded("of long ago", now - 1.3)
    speed = flow.speed()
    assert speed.latencies == 2
    assert speed.latency_p50_s == pytest.approx(0.75)
    assert speed.latency_p99_s == pytest.approx(0.995)
    assert sum(count for _, count in speed.by_second) == 3 or time.time() - now > 1
    flow.embedded("old", now - 86_400)
    assert sum(count for _, count in flow.speed().by_second) <= 3


def test_lag_names_the_source_that_rows_wait_for() -> None:
    a, b, c = (Source(SourceTopic.INTERACTIONS, number) for number in range(3))
    first, second = PartitionProgress(layout=1), PartitionProgress(layout=1)
    first.receive(encode_blocks([Block(a, 0, 10, 20.0), Block(b, 0, 5, 12.0)]))
    second.receive(encode_blocks([Block(a, 0, 8, 18.0), Block(b, 0, 5, 12.0)]))
    first.waiting, second.waiting = 3, 4
    found = behind_of({0: first, 1: second}, {a: 11, b: 5}, None)
    assert [(each.name, each.behind, each.watermark) for each in found.sources] == [
        ("interactions/0", 3, 18.0),
        ("interactions/1", 0, 12.0),
    ]
    assert (found.waiting, found.blocking) == (7, ["interactions/1"])
    never = behind_of({0: first, 1: second}, {a: 11, b: 5, c: 9}, None)
    assert (never.sources[-1].behind, never.sources[-1].watermark, never.blocking) == (9, None, ["interactions/2"])
    first.waiting = second.waiting = 0
    assert behind_of({0: first, 1: second}, {a: 11, b: 5}, None).blocking == []
    assert behind_of({}, {a: 11}, None).sources[0].behind == 11
