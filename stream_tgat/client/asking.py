"""The calls of the query service, with waiting and awaited."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

import orjson

from stream_tgat.client.answers import (
    History,
    Met,
    ModelInfo,
    Neighbours,
    Node,
    NodeAt,
    NodeEmbedding,
    Pair,
    RaisedAlert,
    Recommendations,
    Score,
    Similar,
)
from stream_tgat.client.making import Kind, made
from stream_tgat.errors import QueryError, SettingsError

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")

ADDRESS: Final = "http://127.0.0.1:6080"
TOKEN_VARIABLE: Final = "STREAM_TGAT_TOKEN"  # noqa: S105
_UNAVAILABLE: Final = 503


class Unavailable(QueryError):  # noqa: N818
    """Nobody answers for that node just now; try again after `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _path(kind: Kind, node_id: str, rest: str = "") -> str:
    return f"/v1/nodes/{kind}/{quote(node_id, safe='')}{rest}"


def _at(time: float | str | None, **also: Any) -> dict[str, Any]:
    return {**also, **({} if time is None else {"time": time})}


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _nodes(nodes: Sequence[NodeAt]) -> dict[str, Any]:
    return {"nodes": [dict(zip(("kind", "id", "time"), node, strict=False)) for node in nodes]}


def _wanted(time: float | str | None, k: int, met: Met, allow: Sequence[str], deny: Sequence[str]) -> dict[str, Any]:
    return _at(time, k=k, met=met, allow=list(allow), deny=list(deny))


def _pairs(pairs: Sequence[Pair], time: float | str | None) -> dict[str, Any]:
    return {"pairs": [_at(time, **dict(zip(("user", "item", "features"), pair, strict=False))) for pair in pairs]}


class Client:
    """Asks the query service at `address`; close it, or use it in a with statement."""

    def __init__(self, address: str = ADDRESS, *, token: str | None = None, timeout_s: float = 30.0) -> None:
        """token: by default that of the environment variable STREAM_TGAT_TOKEN"""
        self._http: httpx.Client = _httpx().Client(**_settings(address, token, timeout_s))

    def node(self, kind: Kind, node_id: str, time: float | str | None = None) -> Node:
        """A node now, or at a time, with what was predicted at its newest interaction."""
        return _answer(Node, self._http.get(_path(kind, node_id), params=_at(time)))

    def neighbours(self, kind: Kind, node_id: str, time: float | str | None = None, limit: int = 100) -> Neighbours:
        """Its past interactions, newest first."""
        path = _path(kind, node_id, "/neighbours")
        return _answer(Neighbours, self._http.get(path, params=_at(time, limit=limit)))

    def embeddings(self, nodes: Sequence[NodeAt]) -> list[NodeEmbedding]:
        """Many nodes, in their order."""
        return _answers(NodeEmbedding, self._http.post("/v1/embeddings", json=_nodes(nodes)), "embeddings")

    def score(self, pairs: Sequence[Pair], time: float | str | None = None) -> list[Score]:
        """How likely users meet items, in the order of the pairs."""
        return _answers(Score, self._http.post("/v1/score", json=_pairs(pairs, time)), "scores")

    def similar(self, kind: Kind, node_id: str, time: float | str | None = None, k: int = 10) -> Similar:
        """Nodes of the same kind whose embeddings point the same way, nearest first."""
        return _answer(Similar, self._http.get(_path(kind, node_id, "/similar"), params=_at(time, k=k)))

    def recommend(
        self,
        user: str,
        time: float | str | None = None,
        *,
        k: int = 10,
        met: Met = "all",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> Recommendations:
        """Items that a user will most likely meet next; only those of `allow`, if there are any, none of `deny`."""
        path = f"/v1/users/{quote(user, safe='')}/recommend"
        return _answer(Recommendations, self._http.get(path, params=_wanted(time, k, met, allow, deny)))

    def history(self, kind: Kind, node_id: str, limit: int = 200) -> History:
        """What was said of a node at its newest interactions, oldest first, as far as the service remembers."""
        return _answer(History, self._http.get(_path(kind, node_id, "/history"), params={"limit": limit}))

    def alerts(self, user: str | None = None, head: str | None = None, limit: int = 50) -> list[RaisedAlert]:
        """The newest alerts, newest first, with what explains them and whether they came true."""
        answer = self._http.get("/v1/alerts", params=_given(user=user, head=head, limit=limit))
        return _answers(RaisedAlert, answer, "alerts")

    def names(self, prefix: str, kind: Kind | None = None, limit: int = 10) -> list[tuple[Kind, str]]:
        """Kind and id of nodes whose ids begin with a text, of those that the service remembers."""
        found = _content(self._http.get("/v1/nodes", params=_given(prefix=prefix, kind=kind, limit=limit)))
        return [(each["kind"], each["id"]) for each in found["nodes"]]

    def model(self) -> ModelInfo:
        """The release that serves."""
        return _answer(ModelInfo, self._http.get("/v1/model"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient:
    """As `Client`, to be awaited."""

    def __init__(self, address: str = ADDRESS, *, token: str | None = None, timeout_s: float = 30.0) -> None:
        """token: by default that of the environment variable STREAM_TGAT_TOKEN"""
        self._http: httpx.AsyncClient = _httpx().AsyncClient(**_settings(address, token, timeout_s))

    async def node(self, kind: Kind, node_id: str, time: float | str | None = None) -> Node:
        """A node now, or at a time, with what was predicted at its newest interaction."""
        return _answer(Node, await self._http.get(_path(kind, node_id), params=_at(time)))

    async def neighbours(
        self, kind: Kind, node_id: str, time: float | str | None = None, limit: int = 100
    ) -> Neighbours:
        """Its past interactions, newest first."""
        path = _path(kind, node_id, "/neighbours")
        return _answer(Neighbours, await self._http.get(path, params=_at(time, limit=limit)))

    async def embeddings(self, nodes: Sequence[NodeAt]) -> list[NodeEmbedding]:
        """Many nodes, in their order."""
        return _answers(NodeEmbedding, await self._http.post("/v1/embeddings", json=_nodes(nodes)), "embeddings")

    async def score(self, pairs: Sequence[Pair], time: float | str | None = None) -> list[Score]:
        """How likely users meet items, in the order of the pairs."""
        return _answers(Score, await self._http.post("/v1/score", json=_pairs(pairs, time)), "scores")

    async def similar(self, kind: Kind, node_id: str, time: float | str | None = None, k: int = 10) -> Similar:
        """Nodes of the same kind whose embeddings point the same way, nearest first."""
        return _answer(Similar, await self._http.get(_path(kind, node_id, "/similar"), params=_at(time, k=k)))

    async def recommend(
        self,
        user: str,
        time: float | str | None = None,
        *,
        k: int = 10,
        met: Met = "all",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> Recommendations:
        """Items that a user will most likely meet next; only those of `allow`, if there are any, none of `deny`."""
        path = f"/v1/users/{quote(user, safe='')}/recommend"
        return _answer(Recommendations, await self._http.get(path, params=_wanted(time, k, met, allow, deny)))

    async def history(self, kind: Kind, node_id: str, limit: int = 200) -> History:
        """What was said of a node at its newest interactions, oldest first, as far as the service remembers."""
        return _answer(History, await self._http.get(_path(kind, node_id, "/history"), params={"limit": limit}))

    async def alerts(self, user: str | None = None, head: str | None = None, limit: int = 50) -> list[RaisedAlert]:
        """The newest alerts, newest first, with what explains them and whether they came true."""
        answer = await self._http.get("/v1/alerts", params=_given(user=user, head=head, limit=limit))
        return _answers(RaisedAlert, answer, "alerts")

    async def names(self, prefix: str, kind: Kind | None = None, limit: int = 10) -> list[tuple[Kind, str]]:
        """Kind and id of nodes whose ids begin with a text, of those that the service remembers."""
        found = _content(await self._http.get("/v1/nodes", params=_given(prefix=prefix, kind=kind, limit=limit)))
        return [(each["kind"], each["id"]) for each in found["nodes"]]

    async def model(self) -> ModelInfo:
        """The release that serves."""
        return _answer(ModelInfo, await self._http.get("/v1/model"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError as missing:
        raise SettingsError(
            "asking the query service needs httpx; install it with: pip install 'stream-tgat[serve]'"
        ) from missing
    return httpx


def _settings(address: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    token = token or os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": address, "headers": headers, "timeout": timeout_s}


def _answer(kind: type[_T], response: httpx.Response) -> _T:
    return made(kind, _content(response))


def _answers(kind: type[_T], response: httpx.Response, name: str) -> list[_T]:
    return [made(kind, each) for each in _content(response)[name]]


def _content(response: httpx.Response) -> Any:
    if response.is_success:
        return orjson.loads(response.content)
    try:
        detail = str(orjson.loads(response.content)["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        detail = f"{response.url} answers with status {response.status_code}"
    if response.status_code == _UNAVAILABLE:
        raise Unavailable(detail, float(response.headers.get("retry-after", 1.0)))
    raise QueryError(detail)
