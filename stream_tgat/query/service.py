"""The service over HTTP: read-only, OpenAPI 3.1 at /openapi.json, and the page at /."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.middleware.trustedhost import TrustedHostMiddleware

from stream_tgat.errors import QueryError, ReleaseError, StreamTgatError, TopicError
from stream_tgat.metrics import Sample
from stream_tgat.query import answers
from stream_tgat.query.access import is_loopback
from stream_tgat.query.answers import MOST_ASKED, Problem, TimeParameter
from stream_tgat.query.asking import Asking
from stream_tgat.query.catalog import Catalog
from stream_tgat.query.directory import Directory
from stream_tgat.query.following import Following
from stream_tgat.query.metrics import EMBEDDINGS, LOST, NODES, READERS, UNREAD, MeasuringMiddleware, ServiceMetrics
from stream_tgat.query.node_id import NodeIdParameter
from stream_tgat.query.owners import Owners
from stream_tgat.query.page_files import SecurityHeaders, add_page
from stream_tgat.query.paths import UndecodedPaths
from stream_tgat.query.recommending import Recommending
from stream_tgat.query.scoring import Scoring
from stream_tgat.query.serving import ServingModels
from stream_tgat.query.watching.calls import add_watching
from stream_tgat.query.watching.memory import Memory
from stream_tgat.query.watching.reports import Watching
from stream_tgat.query.workers import MovingError, Workers
from stream_tgat.topology import Kind, Topology

_log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 1
LARGEST_BODY: Final = 1 << 20
MOST_NEIGHBOURS: Final = 1000
MOST_LISTED: Final = 100

_BAD, _UNAUTHORIZED, _TOO_LARGE, _UNPROCESSABLE, _UNAVAILABLE = 400, 401, 413, 422, 503

_BEARER: Final = HTTPBearer(auto_error=False, description="The secret that the service was given.")


@dataclass(frozen=True)
class Parts:
    """What the handlers use."""

    owners: Owners
    workers: Workers
    directory: Directory
    scoring: Scoring
    recommending: Recommending
    serving: ServingModels
    catalog: Catalog
    watching: Watching
    following: Following | None = None


def create_service(topology: Topology, *, host: str, token: str | None, parts: Parts | None = None) -> FastAPI:
    """The service of a deployment.

    host: where it listens   token: the secret that all requests must bring, None for none
    parts: by default those of a deployment that runs
    """
    parts = parts or _parts(topology, token)

    @asynccontextmanager
    async def connected(_: FastAPI) -> AsyncIterator[None]:
        if parts.following is not None:
            parts.following.start()
        beside = [asyncio.create_task(parts.watching.run()), asyncio.create_task(parts.serving.begin())]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if parts.following is not None:
                await asyncio.to_thread(parts.following.stop)
            await parts.workers.close()
            await parts.owners.close()

    service = FastAPI(
        title=f"Streaming TGAT: {topology.name}",
        version=version("stream-tgat"),
        description="Embeddings, neighbours and predictions of all nodes, as they are now. Everything only reads.",
        lifespan=connected,
        max_body_size=LARGEST_BODY,
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        responses={_UNAUTHORIZED: {"model": Problem, "description": "The token is missing, or another one."}},
    )
    guards = [] if token is None else [Security(_guard(token))]
    _add_health(service, parts)
    metrics = ServiceMetrics(lambda: _measured(parts))
    add_watching(service, parts.watching, metrics, guards)
    _add_nodes(service, parts, guards)
    add_page(service)
    _add_failures(service)
    service.state.close = parts.watching.news.close
    service.add_middleware(MeasuringMiddleware, metrics=metrics)
    service.add_middleware(UndecodedPaths)
    service.add_middleware(SecurityHeaders)
    if is_loopback(host):
        # A page of another site must not reach in by a name of its own for this machine.
        service.add_middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]", host])
    return service


def _parts(topology: Topology, token: str | None) -> Parts:
    owners = Owners(topology)
    workers = Workers(owners, token)
    asking, serving, catalog = Asking(workers, topology.kafka.partitions), ServingModels(topology), Catalog()
    scoring, memory = Scoring(topology, asking, serving), Memory(topology)

    async def why_not() -> str | None:
        return (await owners.look()).why

    return Parts(
        owners,
        workers,
        Directory(topology, asking),
        scoring,
        Recommending(topology, asking, scoring, catalog),
        serving,
        catalog,
        Watching(topology, memory, catalog, why_not),
        Following(topology, catalog, memory),
    )


def _measured(parts: Parts) -> Iterator[Sample]:
    news, memory = parts.watching.news, parts.watching.memory
    yield Sample(READERS, news.readers)
    yield Sample(LOST, news.lost)
    yield Sample(EMBEDDINGS, memory.embeddings)
    yield Sample(UNREAD, parts.catalog.behind)
    yield Sample(NODES, memory.remembered.nodes)


def _guard(token: str) -> Callable[..., Awaitable[None]]:
    async def check(given: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            detail = "send the service's token: Authorization: Bearer …"
            raise HTTPException(_UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})

    return check


def _add_health(service: FastAPI, parts: Parts) -> None:
    @service.get("/livez", tags=["health"])
    async def livez() -> answers.Readiness:
        """The process lives."""
        return answers.Readiness(ready=True)

    @service.get("/readyz", tags=["health"], responses={_UNAVAILABLE: {"model": answers.Readiness}})
    async def readyz(response: Response) -> answers.Readiness:
        """Whether every partition has a worker that answers for it."""
        ownership = await parts.owners.look()
        if ownership.why is not None:
            response.status_code = _UNAVAILABLE
        return answers.Readiness(ready=ownership.why is None, reason=ownership.why)


At = Annotated[
    TimeParameter | None, Query(description="Unix seconds or ISO 8601; default: now, the newest interaction included.")
]

Ids = Annotated[list[answers.Id], Query(max_length=MOST_ASKED)]
_NO_IDS: Final[list[str]] = []
Count = Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many, at most.")]


def _add_nodes(service: FastAPI, parts: Parts, guards: list[Any]) -> None:
    refused: dict[int | str, dict[str, Any]] = {
        _UNPROCESSABLE: {"model": Problem, "description": "What was asked has no meaning."},
        _UNAVAILABLE: {"model": Problem, "description": "Nobody has that node just now: try again after Retry-After."},
    }
    of_bodies: dict[int | str, dict[str, Any]] = {
        _BAD: {"model": Problem, "description": "The body cannot be read."},
        _TOO_LARGE: {"model": Problem, "description": "The body is too large.", "content": {"text/plain": {}}},
    }

    @service.get("/v1/nodes/{kind}/{id}", tags=["nodes"], responses=refused, dependencies=guards)
    async def node(kind: Kind, node_id: NodeIdParameter, time: At = None) -> answers.Node:
        """A node's embedding, when it was seen last, and what was predicted about it then."""
        return await parts.directory.node(answers.NodeAt(kind=kind, id=node_id, time=time))

    @service.get("/v1/nodes/{kind}/{id}/neighbours", tags=["nodes"], responses=refused, dependencies=guards)
    async def neighbours(
        kind: Kind,
        node_id: NodeIdParameter,
        time: At = None,
        limit: Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS, description="Newest interactions to tell.")] = 100,
    ) -> answers.Neighbours:
        """The past interactions that its embedding rests on, each with its attention weight; newest first."""
        return await parts.directory.neighbours(answers.NodeAt(kind=kind, id=node_id, time=time), limit)

    @service.post("/v1/embeddings", tags=["nodes"], responses=refused | of_bodies, dependencies=guards)
    async def embeddings(request: answers.EmbeddingsRequest) -> answers.Embeddings:
        """Many nodes, each at its time, in one request."""
        return answers.Embeddings(embeddings=await parts.directory.embeddings(request.nodes))

    @service.get("/v1/nodes/{kind}/{id}/similar", tags=["nodes"], responses=refused, dependencies=guards)
    async def similar(kind: Kind, node_id: NodeIdParameter, time: At = None, k: Count = 10) -> answers.Similar:
        """Nodes of the same kind whose embeddings point the same way, by the same model; nearest first."""
        return await parts.recommending.similar(answers.NodeAt(kind=kind, id=node_id, time=time), k)

    @service.get("/v1/users/{id}/recommend", tags=["pairs"], responses=refused, dependencies=guards)
    async def recommend(
        node_id: NodeIdParameter,
        time: At = None,
        k: Count = 10,
        met: Annotated[Literal["all", "new", "known"], Query(description="Items met before, others, or all.")] = "all",
        allow: Annotated[Ids, Query(description="Only these; all, if none.")] = _NO_IDS,
        deny: Annotated[Ids, Query(description="None of these.")] = _NO_IDS,
    ) -> answers.Recommendations:
        """The items that the user will most likely meet next, and what made each a candidate."""
        return await parts.recommending.recommend(node_id, k, time, met, dict.fromkeys(allow), frozenset(deny))

    @service.post("/v1/score", tags=["pairs"], responses=refused | of_bodies, dependencies=guards)
    async def score(request: answers.ScoreRequest) -> answers.Scores:
        """How likely users meet items, and what heads would say of it if they did."""
        version, scores = await parts.scoring.score(request.pairs)
        return answers.Scores(model=version, scores=scores)

    @service.get("/v1/model", tags=["model"], responses={_UNAVAILABLE: refused[_UNAVAILABLE]}, dependencies=guards)
    async def model() -> answers.ModelInfo:
        """The release that serves."""
        return await parts.serving.info()


def _add_failures(service: FastAPI) -> None:
    @service.exception_handler(RequestValidationError)
    async def invalid(_: Request, problem: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": _in_a_sentence(problem)}, _UNPROCESSABLE)

    @service.exception_handler(MovingError)
    @service.exception_handler(ReleaseError)
    @service.exception_handler(TopicError)
    async def moving(_: Request, problem: StreamTgatError) -> JSONResponse:
        return JSONResponse({"detail": str(problem)}, _UNAVAILABLE, {"Retry-After": str(RETRY_AFTER_S)})

    @service.exception_handler(QueryError)
    async def refused(_: Request, problem: QueryError) -> JSONResponse:
        return JSONResponse({"detail": str(problem)}, _UNPROCESSABLE)


def _in_a_sentence(problem: RequestValidationError) -> str:
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    more = len(problem.errors()) - 1
    return f"{where}: {first['msg']}" + (f" (and {more} more)" if more else "")
