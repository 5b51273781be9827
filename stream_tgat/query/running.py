"""The service as a process: a socket, uvicorn, and an end."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn
from threadpoolctl import threadpool_limits

from stream_tgat.errors import SettingsError
from stream_tgat.query.service import create_service
from stream_tgat.topology import Topology

_STOP_S = 3
_SWITCH_S = 0.0002


def run(
    topology: Topology,
    host: str,
    port: int,
    token: str | None,
    *,
    beside_worker: bool,
    say: Callable[[str], object],
) -> None:
    """Serve until the process is told to stop, or, beside a worker, until that has gone."""
    # What reads topics along gives way to questions at once, not after 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    # Products are small: where other processes have the cores, threads of one wait for each other longer than it takes.
    threadpool_limits(1, user_api="blas")
    listening = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    service = create_service(topology, host=host, token=token)
    # What was loaded stays; and records and answers are many small objects that die young, hardly any in a cycle.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    server = _Server(
        uvicorn.Config(service, log_level="warning", server_header=False, timeout_graceful_shutdown=_STOP_S)
    )
    if beside_worker:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    say(f"Look at http://{address}:{listening.getsockname()[1]}/ or ask; OpenAPI: /openapi.json")
    asyncio.run(server.serve(sockets=[listening]))


class _Server(uvicorn.Server):
    """Ends what would go on for ever before it waits for what is under way."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called when the process is to end."""
        self.config.app.state.close()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol by name: only then asyncio sends small answers at once, and not 40 ms later (TCP_NODELAY).
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except OSError as problem:
        raise SettingsError(
            f"the query service cannot listen at {host}:{port} ({problem.strerror or problem}); choose another with "
            "--port, or query.port"
        ) from problem
    return listening


def _end_with_input(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True
