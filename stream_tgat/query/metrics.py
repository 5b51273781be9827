"""What the query service measures of itself, and the page that Prometheus reads.

Names are as those of a worker (`stream_tgat.metrics.catalogue`), but these are of another process.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_tgat.metrics import Histogram, Metric, Sample
from stream_tgat.metrics.exposition import Exposition

_GROUP: Final = "The query service"
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_P: Final = "stream_tgat_query_"

REQUESTS: Final = Metric(_GROUP, f"{_P}requests_total", "counter", "Requests, by call and status", ("call", "status"))
SECONDS: Final = Metric(
    _GROUP, f"{_P}request_seconds", "histogram", "From a request to the beginning of its answer", ("call",), _BOUNDS
)
READERS: Final = Metric(_GROUP, f"{_P}event_readers", "gauge", "Who reads events now")
LOST: Final = Metric(_GROUP, f"{_P}events_lost_total", "counter", "Events that slow readers have lost")
EMBEDDINGS: Final = Metric(_GROUP, f"{_P}embeddings_read_total", "counter", "Embeddings read from the topic")
UNREAD: Final = Metric(_GROUP, f"{_P}embeddings_unread", "gauge", "Embeddings that are there and not read yet")
NODES: Final = Metric(_GROUP, f"{_P}nodes_remembered", "gauge", "Nodes of which a moment is remembered")
ALL: Final = (REQUESTS, SECONDS, READERS, LOST, EMBEDDINGS, UNREAD, NODES)


class ServiceMetrics:
    """Counts requests. told: the other samples, at the moment of asking"""

    def __init__(self, told: Callable[[], Iterator[Sample]]) -> None:
        self._other_samples = told
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_BOUNDS))
        self._exposition = Exposition(self._measured, ALL)

    def page(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type. accept: the header of the request"""
        return self._exposition.page(accept)

    def answered(self, call: str, status: int, seconds: float) -> None:
        """A request was answered."""
        with self._lock:
            self._requests[call, str(status)] += 1
            self._seconds[call].observe(seconds)

    def _measured(self) -> Iterator[Sample]:
        with self._lock:
            requests, seconds = dict(self._requests), dict(self._seconds)
        for labels, count in requests.items():
            yield Sample(REQUESTS, count, labels)
        for call, histogram in seconds.items():
            yield Sample(SECONDS, histogram, (call,))
        yield from self._other_samples()


class MeasuringMiddleware:
    """Tells the metrics of each request. Its call is the path of its route: labels take few values."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.monotonic()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                call = getattr(scope.get("route"), "path", "other")
                self._metrics.answered(call, message["status"], time.monotonic() - begin)
            await send(message)

        await self._app(scope, receive, sent)
