"""The client against the service over a real socket, and against records as the workers write them."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the query service needs the extra `serve`")

import uvicorn

from stream_tgat.client import AsyncClient, Client, Unavailable, read_alerts, read_embeddings
from stream_tgat.errors import QueryError
from stream_tgat.query import workers as asked_by
from stream_tgat.wire.encode import AlertEncoder, EmbeddingEncoder
from tests.unit.query.ask import Deployment, deployment, engine_over
from tests.unit.query.test_service import MODEL, NOW, SHOP, STREAM, service_on

PAGE = Path(__file__).resolve().parents[3] / "docs" / "query.md"


def served(ask: Callable[[str, Deployment], Awaitable[None]], **settings: object) -> None:
    """Run `ask` with the address of a service."""

    async def run() -> None:
        async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                server = uvicorn.Server(uvicorn.Config(service_on(made, **settings), log_level="error", lifespan="off"))
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                try:
                    await ask(f"http://127.0.0.1:{listening.getsockname()[1]}", made)
                finally:
                    server.should_exit = True
                    await serving

    asyncio.run(run())


def test_both_clients_give_the_same_dataclasses() -> None:
    async def ask(address: str, made: Deployment) -> None:
        def synchronous() -> list[object]:
            with Client(address) as client:
                return [
                    client.node("user", "u1", NOW),
                    client.node("item", "a/b"),
                    client.neighbours("user", "u1", NOW, 2),
                    client.embeddings([("user", "u1", NOW), ("item", "i1")]),
                    client.score([("u1", "i1"), ("u1", "i2", {"price": 1, "channel": "web"})], NOW),
                    client.history("user", "u1", 3),
                    client.alerts("u1"),
                    client.names("U", "user", 2),
                    client.model(),
                ]

        async with AsyncClient(address) as client:
            awaited = [
                await client.node("user", "u1", NOW),
                await client.node("item", "a/b"),
                await client.neighbours("user", "u1", NOW, 2),
                await client.embeddings([("user", "u1", NOW), ("item", "i1")]),
                await client.score([("u1", "i1"), ("u1", "i2", {"price": 1, "channel": "web"})], NOW),
                await client.history("user", "u1", 3),
                await client.alerts("u1"),
                await client.names("U", "user", 2),
                await client.model(),
            ]
        found = await asyncio.to_thread(synchronous)
        assert str(found) == str(awaited)
        node, unknown, neighbours, embeddings, scores, history, alerts, names, model = awaited
        assert node.embedding.dtype == np.float32
        np.testing.assert_array_equal(node.embedding, embeddings[0].embedding)
        assert 0 < node.predictions["returns"].probability < 1
        assert not unknown.known
        assert "newcomer" in unknown.note
        assert len(neighbours.neighbours) == 2
        assert neighbours.neighbours[0].features["channel"] in ("web", "app")
        assert scores[0].predictions is None
        assert 0 < scores[1].predictions["returns"] < 1
        assert [each.predictions for each in history.moments] == [{"returns": 0.25}] * 3
        assert (alerts[0].came_true, alerts[0].because[0].peer) == (True, "i1")
        assert names == [("user", "u0"), ("user", "u1")]
        assert model.heads[0].name == "returns"

    served(ask)


def test_what_is_refused_is_an_error_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_by, "PATIENCE_S", 0.0)

    async def ask(address: str, made: Deployment) -> None:
        async with AsyncClient(address) as stranger:
            with pytest.raises(QueryError, match="send the service's token"):
                await stranger.node("user", "u1")
        async with AsyncClient(address, token="secret") as client:
            with pytest.raises(QueryError, match="has 60 bytes"):
                await client.node("user", "x" * 60)
            for partition in range(4):
                made.move(partition, None)
            with pytest.raises(Unavailable, match="answers for partitions") as refusal:
                await client.node("user", "u1")
            assert refusal.value.retry_after_s == 1.0

    served(ask, token="secret")


def test_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "import Client" in text
    ]

    async def ask(address: str, made: Deployment) -> None:
        text = example.replace("http://127.0.0.1:6080", address).replace('"ann"', '"u1"')
        await asyncio.to_thread(exec, text, {})

    assert len(example.splitlines()) <= 20
    served(ask)
    assert re.search(
        r"\d+ interactions, the last at 10\d\d.*kettle [01]\.\d\d, tea", capsys.readouterr().out, re.DOTALL
    )


@pytest.mark.parametrize("output_key", ["kind/id", "id"])
@pytest.mark.parametrize("output_format", ["json", "msgpack"])
def test_records_become_dataclasses_and_repeats_are_dropped(output_format: str, output_key: str) -> None:
    form = {"output_format": output_format, "output_key": output_key}
    topology = SHOP.model_copy(update={"kafka": SHOP.kafka.model_copy(update=form)})
    vector = np.array([0.1, -2.5], np.float32)
    common = {"interaction": b"p1", "node": b"uann", "peer": b"itea", "timestamp": 5.5, "model": 3}
    encoder = EmbeddingEncoder(topology)
    _, value = encoder.encode(**common, side=0, embedding=vector, predictions=np.array([0.25], np.float32), late=True)
    records = [SimpleNamespace(value=value), SimpleNamespace(value=None), SimpleNamespace(value=value)]
    (found,) = read_embeddings(records)
    np.testing.assert_array_equal(found.embedding, vector)
    assert (found.node, found.kind, found.peer, found.timestamp, found.model) == ("ann", "user", "tea", 5.5, 3)
    assert (found.predictions, found.late) == ({"returns": 0.25}, True)
    _, value = AlertEncoder(topology).encode(
        **common, head="returns", probability=0.75, threshold=0.5, because=[(b"ijam", b"p0", 1.5, 0.125)]
    )
    (alert,) = read_alerts([SimpleNamespace(value=value)] * 2)
    assert (alert.node, alert.kind, alert.head, alert.probability) == ("ann", "user", "returns", 0.75)
    assert (alert.because[0].peer, alert.because[0].time, alert.because[0].weight) == ("jam", 1.5, 0.125)
