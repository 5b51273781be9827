"""The calls that tell what the service has seen: alerts, histories, the map, releases, quality, and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from stream_tgat.query.answers import Id, Problem, TimeParameter
from stream_tgat.query.metrics import ServiceMetrics
from stream_tgat.query.node_id import NodeIdParameter
from stream_tgat.query.watching import watched
from stream_tgat.query.watching.broadcast import MOST_READERS
from stream_tgat.query.watching.reports import Watching
from stream_tgat.topology import Kind

MOST_MOMENTS: Final = 1000
MOST_PLACES: Final = 2000
MOST_ALERTS: Final = 500
_UNPROCESSABLE, _UNAVAILABLE = 422, 503
_RETRY_AFTER_S: Final = 5

Responses = dict[int | str, dict[str, Any]]
_REFUSED: Final[Responses] = {_UNPROCESSABLE: {"model": Problem, "description": "What was asked has no meaning."}}
_BUSY: Final[Responses] = {_UNAVAILABLE: {"model": Problem, "description": "Try again after Retry-After."}}


def add_watching(service: FastAPI, watching: Watching, metrics: ServiceMetrics, guards: list[Any]) -> None:
    """Add them. guards: dependencies of each"""
    _add_nodes(service, watching, guards)
    _add_model(service, watching, guards)
    _add_events(service, watching, guards)

    @service.get("/metrics", tags=["health"], dependencies=guards, response_class=Response)
    def page(request: Request) -> Response:
        """What this service measures of itself, for Prometheus."""
        content, kind = metrics.page(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": kind})


def _add_nodes(service: FastAPI, watching: Watching, guards: list[Any]) -> None:
    @service.get("/v1/alerts", tags=["events"], responses=_REFUSED, dependencies=guards)
    def alerts(
        user: Annotated[Id | None, Query(description="Only of this user.")] = None,
        head: Annotated[str | None, Query(max_length=64, description="Only of this head.")] = None,
        came_true: Annotated[bool | None, Query(description="Only those that did, or that did not.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_ALERTS)] = 50,
    ) -> watched.Alerts:
        """The newest alerts, each with the interactions that explain it, and whether it came true."""
        return watching.alerts(limit, user, head, came_true)

    @service.get("/v1/nodes", tags=["nodes"], responses=_REFUSED, dependencies=guards)
    def names(
        prefix: Annotated[str, Query(max_length=4096, description="With which ids begin, whatever the case.")] = "",
        kind: Kind | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> watched.Names:
        """Nodes by the beginning of their ids, of those that the service remembers."""
        return watching.names(prefix, kind, limit)

    @service.get("/v1/nodes/{kind}/{id}/history", tags=["nodes"], responses=_REFUSED, dependencies=guards)
    def history(
        kind: Kind,
        node_id: NodeIdParameter,
        limit: Annotated[int, Query(ge=1, le=MOST_MOMENTS, description="Newest moments to tell.")] = 200,
    ) -> watched.History:
        """What `embeddings` has said of a node, as far as the service remembers: predictions, and how it moved."""
        return watching.history(kind, node_id, limit)

    @service.get("/v1/map", tags=["nodes"], responses=_REFUSED, dependencies=guards)
    def map_(
        time: Annotated[
            TimeParameter | None, Query(description="Unix seconds or ISO 8601; default: the newest.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_PLACES)] = 1000,
    ) -> watched.Map:
        """Nodes on a plane by their embeddings, as of a time of the stream."""
        return watching.map(time, limit)


def _add_model(service: FastAPI, watching: Watching, guards: list[Any]) -> None:
    @service.get("/v1/releases", tags=["model"], dependencies=guards, responses=_BUSY)
    def releases() -> watched.ReleaseList:
        """All releases that were promoted, with their cards and what the gate said of them; newest first."""
        return watching.releases()

    @service.get("/v1/quality", tags=["model"], dependencies=guards)
    def quality() -> watched.Quality:
        """How good predictions were, once it was known: the newest report of topic `quality`."""
        return watched.Quality(report=watching.memory.report)


def _add_events(service: FastAPI, watching: Watching, guards: list[Any]) -> None:
    async def has_room() -> None:
        if watching.news.readers >= MOST_READERS:
            detail = f"{MOST_READERS} read already"
            raise HTTPException(_UNAVAILABLE, detail, headers={"Retry-After": str(_RETRY_AFTER_S)})

    @service.get(
        "/v1/events",
        tags=["events"],
        dependencies=[*guards, Depends(has_room)],
        response_class=EventSourceResponse,
        responses=_BUSY,
    )
    async def events() -> AsyncIterable[ServerSentEvent]:
        """What happens, as server-sent events, until either side ends it.

        `pulse` each second: rates, latency, how far behind each source is, and which one blocks. `interactions`: those
        embedded since the last such event. `alert`, `quality`: as of `/v1/alerts` and `/v1/quality`. Who reads slowly
        loses the oldest, and is told by `lost` how many messages.
        """
        first = await asyncio.to_thread(watching.pulse)
        yield ServerSentEvent(event="pulse", raw_data=first.model_dump_json())
        async for kind, content in watching.news.read():
            yield ServerSentEvent(event=kind, raw_data=content)
