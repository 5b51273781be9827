"""`serve`: the query service, which answers questions about nodes over HTTP."""

from __future__ import annotations

import click

from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console
from stream_tgat.errors import SettingsError
from stream_tgat.query.access import checked_token
from stream_tgat.topology import Topology


def serve_command(topology: Topology) -> click.Command:
    """`serve`."""

    @click.command(cls=Command)
    @click.option("--host", help="Where to listen (default: query.host).")
    @click.option(
        "--port", type=click.IntRange(0, 65_535), help="On which port; 0: any that is free (default: query.port)."
    )
    @click.option("--beside-worker", is_flag=True, hidden=True, help="End when standard input ends.")
    def serve(host: str | None, port: int | None, beside_worker: bool) -> None:
        """Answer questions about nodes over HTTP: embeddings now, neighbours, scores.

        It only reads, and asks the workers, wherever they run. It listens on this machine only. Elsewhere it needs a
        secret, which workers must have too: set STREAM_TGAT_TOKEN. Its OpenAPI document is at /openapi.json.

          faust -A stream_tgat serve
          curl http://127.0.0.1:6080/v1/nodes/user/ann
        """
        host = topology.query.host if host is None else host
        port = topology.query.port if port is None else port
        token = checked_token("query.host (or --host)", host)
        try:
            from stream_tgat.query.running import run
        except ModuleNotFoundError as missing:
            if missing.name not in ("fastapi", "plotly", "starlette", "uvicorn"):
                raise
            raise SettingsError(
                f"the query service needs {missing.name}; install it with: pip install 'stream-tgat[serve]'"
            ) from missing
        reach(topology.kafka)
        run(topology, host, port, token, beside_worker=beside_worker, say=console(stderr=True).print)

    return serve
