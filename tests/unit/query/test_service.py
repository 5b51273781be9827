"""The service over HTTP, on workers without Kafka: answers, refusals, and who may ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the query service needs the extra `serve`")

import httpx

from stream_tgat.query import workers as asked_by
from stream_tgat.query.answers import MOST_ASKED, HeadInfo, ModelInfo
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.recommending import Recommending
from stream_tgat.query.scoring import Scoring
from stream_tgat.query.service import LARGEST_BODY, Parts, create_service
from tests.unit.engine.oracle import Oracle
from tests.unit.query.ask import (
    Deployment,
    catalog_of,
    deployment,
    engine_over,
    model_for,
    purchases,
    shop,
    watching_of,
)

SHOP = shop()
MODEL = model_for(SHOP)
STREAM = purchases(SHOP)
NOW = 1100.0
Client = httpx.AsyncClient


class FakeServing:
    async def begin(self) -> None:
        pass

    async def model(self, version: int | None = None) -> Any:
        return MODEL

    async def info(self) -> ModelInfo:
        return ModelInfo(
            version=7,
            release="r1",
            created="2024-01-01T00:00:00",
            hidden=8,
            layers=2,
            neighbours=3,
            affinity="mlp",
            pair_features=False,
            heads=[HeadInfo(name="returns", threshold=0.5)],
            metrics={},
        )


def service_on(made: Deployment, **settings: Any) -> Any:
    scoring = Scoring(made.topology, made.asking, FakeServing())
    recommending = Recommending(made.topology, made.asking, scoring, catalog_of(STREAM))
    watching = watching_of(made.topology, STREAM)
    parts = Parts(
        made.owners,  # type: ignore[arg-type]
        made.connections,
        made.directory,
        scoring,
        recommending,
        FakeServing(),  # type: ignore[arg-type]
        Catalog(),
        watching,
    )
    if settings.pop("events_end", True):
        watching.news.close()  # events would go on for ever
    return create_service(made.topology, **({"host": "127.0.0.1", "token": None} | settings), parts=parts)


def asking(ask: Callable[[Client, Deployment], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            transport = httpx.ASGITransport(service_on(made, **settings))
            async with Client(transport=transport, base_url="http://127.0.0.1") as client:
                await ask(client, made)

    asyncio.run(run())


def test_node_is_told_with_its_embedding_and_what_was_predicted() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        answer = await client.get("/v1/nodes/user/u1", params={"time": NOW})
        assert answer.status_code == 200
        told = answer.json()
        oracle = Oracle(MODEL, STREAM)
        past = oracle.past(b"uu1", NOW)
        np.testing.assert_allclose(told.pop("embedding"), oracle.state(2, b"uu1", NOW), atol=1e-5 * 10)
        said = told.pop("predictions")["returns"]
        assert told == {
            "kind": "user",
            "id": "u1",
            "known": True,
            "time": NOW,
            "interactions": len(past),
            "last_seen": past[-1].time,
            "model": 7,
            "received_until": 2000.0,
            "complete": True,
            "note": None,
        }
        assert 0 < said["probability"] < 1
        assert (said["at"], said["threshold"]) == (past[-1].time, 0.5)

    asking(ask)


def test_unknown_node_gets_the_embedding_of_a_newcomer_and_is_told_so() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        told = (await client.get("/v1/nodes/user/nobody")).json()
        assert told["known"] is False
        assert told["interactions"] == 0
        assert told["last_seen"] is None
        assert "no interaction of user 'nobody' is known" in told["note"]
        np.testing.assert_allclose(
            told["embedding"], Oracle(MODEL, STREAM).state(2, b"unobody", told["time"]), atol=1e-5
        )
        assert told["predictions"]["returns"] == {"probability": None, "at": None, "threshold": 0.5, "alerted_at": None}
        assert (await client.get("/v1/nodes/item/nothing")).json()["predictions"] == {}
        assert (await client.get("/v1/nodes/user/nobody/neighbours")).json()["neighbours"] == []

    asking(ask)


def test_times_are_seconds_or_iso() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        for text in ("1100", "1100.0", "1970-01-01T00:18:20Z"):
            assert (await client.get("/v1/nodes/user/u1", params={"time": text})).json()["time"] == NOW
        for text in ("soon", "-1e12", "1e300", "nan", "inf", "2024-13-01T00:00:00Z"):
            refused = await client.get("/v1/nodes/user/u1", params={"time": text})
            assert refused.status_code == 422
            assert refused.json()["detail"].startswith("time: ")

    asking(ask)


def test_id_with_a_slash_is_another_node_than_its_neighbours() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        for name in ("a/b", "u1/neighbours", "%2F", "ünï", "a b"):
            raw = "".join(f"%{byte:02X}" for byte in name.encode())
            told = (await client.get(f"/v1/nodes/user/{raw}")).json()
            assert (told["id"], told["known"]) == (name, False)
            assert (await client.get(f"/v1/nodes/user/{raw}/neighbours")).json()["id"] == name
        assert (await client.get("/v1/nodes/user/%FF")).status_code == 422
        assert (await client.get("/v1/nodes/user/%00")).status_code == 422
        assert (await client.get("/v1/nodes/user/" + "x" * 60)).status_code == 422
        assert (await client.get("/v1/nodes/shop/u1")).status_code == 422

    asking(ask)


def test_many_nodes_in_one_request() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        asked = [{"kind": "user", "id": f"u{k % 7}", "time": 1000.0 + k} for k in range(200)]
        asked += [{"kind": "item", "id": "i1"}]
        told = (await client.post("/v1/embeddings", json={"nodes": asked})).json()["embeddings"]
        assert [(each["kind"], each["id"]) for each in told] == [(each["kind"], each["id"]) for each in asked]
        oracle = Oracle(MODEL, STREAM)
        for each in told:
            if each["complete"]:
                expected = oracle.state(2, SHOP.node_key(each["kind"], each["id"]), each["time"])
                np.testing.assert_allclose(each["embedding"], expected, atol=1e-5 * max(1, np.abs(expected).max()))
        assert told[-1]["complete"]

    asking(ask)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON"),
        (b'{"nodes": []}', "nodes: "),
        (b'{"nodes": [{"kind": "user", "id": "a", "tiem": 3}]}', "nodes.0.tiem: "),
        (b'{"nodes": [{"kind": "user", "id": ""}]}', "nodes.0.id: "),
        (b'{"nodes": [{"kind": "user", "id": "\\u0000"}]}', "nodes.0.id: "),
        (b'{"nodes": [' + b",".join([b'{"kind": "user", "id": "a"}'] * (MOST_ASKED + 1)) + b"]}", "nodes: "),
    ],
)
def test_body_that_says_nothing_is_refused_in_a_sentence(body: bytes, message: str) -> None:
    async def ask(client: Client, made: Deployment) -> None:
        refused = await client.post("/v1/embeddings", content=body, headers={"content-type": "application/json"})
        assert refused.status_code == 422
        assert message in refused.json()["detail"]

    asking(ask)


@pytest.mark.parametrize("tells_its_length", [True, False])
def test_huge_body_is_refused_before_it_is_read(tells_its_length: bool) -> None:
    async def ask(client: Client, made: Deployment) -> None:
        async def pieces() -> Any:
            for _ in range(LARGEST_BODY // 65_536 + 2):
                yield b" " * 65_536

        content: Any = b" " * (LARGEST_BODY + 1) if tells_its_length else pieces()
        refused = await client.post("/v1/embeddings", content=content)
        assert refused.status_code == 413
        assert "Content Too Large" in refused.text

    asking(ask)


def test_nobody_there_is_503_with_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 0.0)

    async def ask(client: Client, made: Deployment) -> None:
        assert (await client.get("/readyz")).json() == {"ready": True, "reason": None}
        for partition in range(4):
            made.move(partition, None)
        for answer in (
            await client.get("/v1/nodes/user/u1"),
            await client.post("/v1/embeddings", json={"nodes": [{"kind": "user", "id": "a"}]}),
        ):
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert "answers for partitions" in answer.json()["detail"]
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert "no worker has partitions" in ready.json()["reason"]
        assert (await client.get("/livez")).status_code == 200

    asking(ask)


def test_token_is_asked_of_all_but_probes() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic c2VjcmV0"}):
            refused = await client.get("/v1/nodes/user/u1", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/v1/nodes/user/u1", headers={"Authorization": "Bearer secret"})).status_code == 200
        assert (await client.get("/livez")).status_code == (await client.get("/readyz")).status_code == 200

    asking(ask, token="secret")


def test_page_of_another_site_cannot_ask_by_a_name_of_its_own() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        assert (await client.get("/v1/nodes/user/u1", headers={"host": "evil.example"})).status_code == 400
        assert (await client.get("/v1/nodes/user/u1", headers={"host": "localhost:6080"})).status_code == 200

    asking(ask)


def test_document_is_openapi_31_and_names_every_call() -> None:
    async def ask(client: Client, made: Deployment) -> None:
        document = (await client.get("/openapi.json")).json()
        assert document["openapi"].startswith("3.1")
        assert {"/v1/nodes/{kind}/{id}", "/v1/nodes/{kind}/{id}/neighbours", "/v1/embeddings", "/v1/model"} <= set(
            document["paths"]
        )
        assert all(operation.get("description") for path in document["paths"].values() for operation in path.values())

    asking(ask)
