"""Questions to whoever has the nodes: cut by worker, and sent side by side; asked again where nodes move."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgpack

from stream_tgat.errors import QueryError
from stream_tgat.query.messages import Question, Reply, Status, read_frame, write_frame
from stream_tgat.query.owners import Owners

#: A question that finds no owner is tried again for so long: a moment is what a handover takes at best.
PATIENCE_S: Final = 1.0
_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 10.0


class MovingError(QueryError):
    """Nobody speaks for a partition just now: try again soon."""


class _NotThereError(Exception):
    """Nobody answers there."""


@dataclass(frozen=True)
class PartialQuestion:
    """A question that is part of a larger one. places, pairs, events: which of its nodes, pairs and interactions"""

    places: list[int]
    pairs: list[int]
    events: list[int]
    question: Question


class Workers:
    """Connections to the workers of a deployment, one each."""

    def __init__(self, owners: Owners, token: str | None) -> None:
        self._owners = owners
        self._token = token
        self._connections: dict[str, _Connection] = {}

    async def ask(
        self, partitions: Sequence[int], cut: Callable[[list[int]], Iterable[PartialQuestion]]
    ) -> list[tuple[PartialQuestion, Reply]]:
        """Answers about nodes, of which these are the partitions [n]; MovingError if one has no owner for long.

        cut: makes questions about nodes that one worker has, given by their places among the n
        """
        begin = time.monotonic()
        ownership = self._owners.known
        left, answered = list(range(len(partitions))), []
        while True:
            of_worker: dict[str | None, list[int]] = {}
            for place in left:
                of_worker.setdefault(ownership.address.get(partitions[place]), []).append(place)
            left, reason = of_worker.pop(None, []), ownership.why
            asked = [(address, part) for address, places in of_worker.items() if address for part in cut(places)]
            answers = await asyncio.gather(*(self._ask_at(address, part.question) for address, part in asked))
            for (_, part), answer in zip(asked, answers, strict=True):
                if isinstance(answer, Reply):
                    answered.append((part, answer))
                else:
                    left, reason = left + part.places, answer
            if not left:
                return answered
            left = list(dict.fromkeys(left))
            if ownership.at > begin and time.monotonic() > begin + PATIENCE_S:
                nobody = sorted({partitions[place] for place in left})
                raise MovingError(f"nobody answers for partitions {nobody} now: {reason}")
            ownership = await self._owners.look(ownership)

    async def close(self) -> None:
        """Disconnect."""
        for connection in self._connections.values():
            await connection.close()

    async def _ask_at(self, address: str, question: Question) -> Reply | str:
        """What a worker answers, or why it is not the one to ask."""
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = _Connection(address, self._token)
        try:
            status, content = await connection.ask(question.encode())
        except _NotThereError as problem:
            return str(problem)
        if status == Status.NOT_HERE:
            return content.decode()
        if status == Status.REFUSED:
            raise QueryError(f"the worker at {address} does not take the question: {content.decode()}")
        return Reply.decode(content)


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
