"""Where a worker answers the service: a socket, and a queue of questions that its engine answers between two cycles.

Questions wait until the engine's thread is free; then as many as fill one slice are answered together, and the stream
goes on. So a flood of questions delays the stream by one slice a cycle, whatever is asked.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgpack

from stream_tgat.errors import NotHereError, SettingsError
from stream_tgat.query.access import checked_token
from stream_tgat.query.lookup import Lookup
from stream_tgat.query.messages import MOST_NODES, SCHEME, Question, Status, read_frame, write_frame
from stream_tgat.topology import Query, Topology

if TYPE_CHECKING:
    from stream_tgat.engine import Engine
    from stream_tgat.message_passing.progress import PartitionProgress

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Waiting = tuple[Question, asyncio.Future[tuple[Status, bytes]]]

#: Questions of one connection that wait at a time; more are not read from its socket meanwhile.
_AHEAD: Final = 256
#: Nodes of one slice of the engine's time, which are two to three milliseconds. Beside the largest question there is
#: room for small ones.
MOST_OF_SLICE: Final = MOST_NODES + 32
_HELLO_S: Final = 5.0

ADVERTISED_VARIABLE: Final = "STREAM_TGAT_WORKER_HOST"
"""Environment variable of the name under which the service reaches this worker, where `query.worker_host` is any."""


class Partitions(Protocol):
    """What is asked of the worker: see `agents.propagate.Propagate`."""

    async def look(self, work: Callable[[Engine, Mapping[int, PartitionProgress]], _T]) -> _T:
        """Short work that changes nothing, in the engine's thread."""


class Endpoint:
    """Answers questions about the nodes of one worker."""

    def __init__(self, topology: Topology, partitions: Partitions, why_not: Callable[[], str | None]) -> None:
        """why_not: why the worker may not speak for its partitions now, None if it may"""
        self._settings = topology.query
        self._lookup = Lookup(topology)
        self._partitions = partitions
        self._why_not = why_not
        self._token = b""
        self._server: asyncio.Server | None = None
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    async def start(self) -> str:
        """Listen; returns the URL under which others reach it. SettingsError says what is in the way."""
        host = self._settings.worker_host
        self._token = (checked_token("query.worker_host", host) or "").encode()
        try:
            self._server = await asyncio.start_server(self._connected, host, self._settings.worker_port)
        except OSError as problem:
            raise SettingsError(
                f"the endpoint for questions cannot listen at {host}:{self._settings.worker_port} "
                f"({problem.strerror or problem}); choose another query.worker_port, or 0 for any that is free"
            ) from problem
        self._answering = asyncio.create_task(self._answer_all())
        port = self._server.sockets[0].getsockname()[1]
        return f"{SCHEME}://{advertised(self._settings)}:{port}"

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        tasks = [*self._connections, *([self._answering] if self._answering else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # One connection

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, ValueError, msgpack.UnpackException) as problem:
            # Whoever it was hears it from the connection, which is closed; the stream is not concerned.
            _log.info("A connection that asked was closed: %r", problem)
        except asyncio.CancelledError:
            # The server stops.
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await asyncio.wait_for(read_frame(reader), _HELLO_S)
        if hello is None or not hmac.compare_digest(hello, self._token):
            raise ValueError("another token than this worker's")
        ahead = asyncio.Semaphore(_AHEAD)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while (frame := await read_frame(reader)) is not None:
                number, content = msgpack.unpackb(frame)
                await ahead.acquire()
                task = asyncio.create_task(self._reply(int(number), content, writer))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                task.add_done_callback(lambda _: ahead.release())
        finally:
            for task in under_way:
                task.cancel()

    async def _reply(self, number: int, content: bytes, writer: asyncio.StreamWriter) -> None:
        status, answer = await self._asked(content)
        with suppress(ConnectionError):
            write_frame(writer, msgpack.packb([number, int(status), answer]))
            await writer.drain()

    async def _asked(self, content: bytes) -> tuple[Status, bytes]:
        try:
            question = Question.decode(content)
            self._lookup.check(question)
        except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException) as problem:
            return Status.REFUSED, str(problem).encode()
        done: asyncio.Future[tuple[Status, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, done))
        self._wake.set()
        return await done

    # The engine's side

    async def _answer_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._answer_some()

    async def _answer_some(self) -> None:
        """One slice: the question that came first, and of the others, as they came, those for which there is room."""
        room, asked, left = MOST_OF_SLICE, list[_Waiting](), list[_Waiting]()
        for question, done in self._waiting:
            if done.done():
                continue
            if len(question.node) <= room:
                room -= len(question.node)
                asked.append((question, done))
            else:
                left.append((question, done))
        self._waiting = left
        answers = await self._answers([question for question, _ in asked])
        for (_, done), answer in zip(asked, answers, strict=True):
            if not done.done():
                done.set_result(answer)

    async def _answers(self, questions: list[Question]) -> list[tuple[Status, bytes]]:
        reason = self._why_not()
        if reason is None:
            try:
                answers = await self._partitions.look(partial(self._look, questions))
            except Exception as problem:  # noqa: BLE001
                # With it the right to commit has ended: the next cycle opens the state anew, or stops the worker.
                reason = f"the worker cannot read its state: {problem}"
            else:
                # Asked again: the right to speak for the partitions may have ended meanwhile.
                reason = self._why_not()
                if reason is None:
                    return answers
        return [(Status.NOT_HERE, reason.encode())] * len(questions)

    def _look(
        self, questions: Sequence[Question], engine: Engine, received: Mapping[int, PartitionProgress]
    ) -> list[tuple[Status, bytes]]:
        """In the engine's thread."""
        return [
            (Status.NOT_HERE, str(answer).encode())
            if isinstance(answer, NotHereError)
            else (Status.ANSWERED, answer.encode())
            for answer in self._lookup.answers(questions, engine, received)
        ]


def advertised(settings: Query) -> str:
    """The host under which others reach this worker, as it stands in a URL."""
    if named := os.environ.get(ADVERTISED_VARIABLE):
        return named
    host = socket.getfqdn() if settings.worker_host in ("0.0.0.0", "::") else settings.worker_host  # noqa: S104
    return f"[{host}]" if ":" in host else host
