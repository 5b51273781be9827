"""Questions to whoever has the nodes: cut by owner, sent side by side, put together; asked again where nodes move."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgpack

from stream_tgat.errors import QueryError
from stream_tgat.query.messages import Answer, Question, Status, read_frame, write_frame
from stream_tgat.query.owners import Owners

#: A question that finds no owner is tried again for so long: a moment is what a handover takes at best.
PATIENCE_S: Final = 1.0
_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 10.0


class MovingError(QueryError):
    """Nobody speaks for a partition just now: try again soon."""


class _NotThereError(Exception):
    """The worker that was asked is not the one to ask, or is gone."""


class Workers:
    """Connections to the workers of a deployment, one each."""

    def __init__(self, owners: Owners, token: str | None) -> None:
        self._owners = owners
        self._token = token
        self._connections: dict[str, _Connection] = {}

    async def ask(self, questions: Sequence[tuple[int, Question]]) -> list[Answer]:
        """Answers to questions, each about nodes of one partition; MovingError if one has no owner for long."""
        return list(await asyncio.gather(*(self._ask(partition, each) for partition, each in questions)))

    async def close(self) -> None:
        """Disconnect."""
        for connection in self._connections.values():
            await connection.close()

    async def _ask(self, partition: int, question: Question) -> Answer:
        begin = time.monotonic()
        ownership = self._owners.known
        while True:
            reason = ownership.why
            address = ownership.address.get(partition)
            if address is not None:
                try:
                    return await self._ask_at(address, question)
                except _NotThereError as problem:
                    reason = str(problem)
            if ownership.at > begin and time.monotonic() > begin + PATIENCE_S:
                raise MovingError(f"partition {partition} has nobody who answers now: {reason}")
            ownership = await self._owners.look(ownership)

    async def _ask_at(self, address: str, question: Question) -> Answer:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = _Connection(address, self._token)
        status, content = await connection.ask(question.encode())
        if status == Status.NOT_HERE:
            raise _NotThereError(content.decode())
        if status == Status.REFUSED:
            raise QueryError(f"the worker at {address} does not take the question: {content.decode()}")
        return Answer.decode(content)


class _Connection:
    """One connection, made when it is first used; questions share it."""

    def __init__(self, address: str, token: str | None) -> None:
        self._address = address
        self._token = token
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self.is_closed = False

    async def ask(self, content: bytes) -> tuple[int, bytes]:
        """Status and answer; _NotThereError if nobody answers."""
        writer = await self._open()
        number = next(self._numbers)
        self._waiting[number] = answered = asyncio.get_running_loop().create_future()
        try:
            write_frame(writer, msgpack.packb([number, content]))
            await writer.drain()
            return await asyncio.wait_for(answered, _ANSWER_S)
        except (OSError, TimeoutError) as problem:
            self.is_closed = True
            raise _NotThereError(f"the worker at {self._address} does not answer ({problem!r})") from problem
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Disconnect."""
        self.is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _open(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                host, _, port = self._address.rpartition(":")
                try:
                    reader, writer = await asyncio.wait_for(
                        asyncio.open_connection(host.strip("[]"), int(port)), _CONNECT_S
                    )
                except (OSError, TimeoutError) as problem:
                    self.is_closed = True
                    raise _NotThereError(f"the worker at {self._address} cannot be reached ({problem!r})") from problem
                write_frame(writer, (self._token or "").encode())
                self._writer, self._reading = writer, asyncio.create_task(self._read(reader))
        return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, ValueError):
            while (frame := await read_frame(reader)) is not None:
                number, status, content = msgpack.unpackb(frame)
                answered = self._waiting.get(number)
                if answered is not None and not answered.done():
                    answered.set_result((status, content))
        self.is_closed = True
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError(f"{self._address} has closed the connection"))
