"""Whatever the OpenAPI document allows, and much that it does not, is answered as it says."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the query service needs the extra `serve`")

import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.unit.query.ask import deployment, engine_over, shop
from tests.unit.query.test_service import MODEL, STREAM, service_on

#: No document can say of a text that its bytes are at most so many; here they all are.
SHOP = shop(graph={"max_id_bytes": 1024})


@pytest.fixture(scope="module")
def document() -> Iterator[Any]:
    """The document of a service that runs in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server: uvicorn.Server | None = None
        started = threading.Event()

        async def serve() -> None:
            nonlocal server
            async with deployment(SHOP, [engine_over(SHOP, MODEL, STREAM)]) as made:
                server = uvicorn.Server(uvicorn.Config(service_on(made), log_level="error", lifespan="off"))
                started.set()
                await server.serve(sockets=[listening])

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        assert started.wait(120)
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{listening.getsockname()[1]}/openapi.json")
        assert server is not None
        server.should_exit = True
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_answers_are_what_the_document_says(document: Any, mode: Any) -> None:
    found = [result.ok() for result in document.get_all_operations()]
    assert len(found) >= 17
    for operation in found:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def check(case: Any) -> None:
            # Which fields an interaction has, the topology says and not the document.
            excluded = [positive_data_acceptance] if case.operation.path == "/v1/score" else []
            # The first map loads scikit-learn.
            case.call_and_validate(excluded_checks=excluded, timeout=60)

        try:
            check()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, operation.label  # where anything at all is right
