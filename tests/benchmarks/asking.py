"""The load of the query service: one process that asks at a steady rate, whether or not answers have come.

A question counts from the moment at which it was *due*, so an asker that falls behind makes latencies longer and hides
nothing. Connections are kept open, as many as answers are awaited; what is asked is made beforehand.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import orjson
from numpy.typing import NDArray


@dataclass(frozen=True)
class Questions:
    """What to ask, over and over. requests: HTTP/1.1 requests, whole   rate: a second"""

    requests: list[bytes]
    rate: float
    seconds: float


@dataclass(frozen=True)
class Answers:
    """Of each question in its order: latency_s f8[n], status of HTTP i8[n]"""

    latency_s: NDArray[np.float64]
    status: NDArray[np.int64]

    @property
    def failed(self) -> int:
        """How many had another status than 200."""
        return int(np.count_nonzero(self.status != 200))

    def percentile_ms(self, q: float) -> float:
        return float(1e3 * np.percentile(self.latency_s, q))


def get(path: str) -> bytes:
    """A request."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, content: object) -> bytes:
    """A request with a body of JSON."""
    body = orjson.dumps(content)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


class _Asker:
    """Lives in its process."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def serve(self, pipe: Connection) -> None:
        pipe.send(None)
        while (questions := await asyncio.to_thread(pipe.recv)) is not None:
            pipe.send(await self._ask_all(questions))

    async def _ask_all(self, questions: Questions) -> Answers:
        count = int(questions.rate * questions.seconds)
        latency, status = np.zeros(count), np.zeros(count, np.int64)
        start = time.perf_counter() + 0.05

        async def ask(n: int) -> None:
            due = start + n / questions.rate
            status[n] = await self._ask(questions.requests[n % len(questions.requests)])
            latency[n] = time.perf_counter() - due

        asked: set[asyncio.Task[None]] = set()
        for n in range(count):
            await asyncio.sleep(max(0.0, start + n / questions.rate - time.perf_counter()))
            asked.add(asyncio.create_task(ask(n)))
        await asyncio.gather(*asked)
        return Answers(latency, status)

    async def _ask(self, request: bytes) -> int:
        while True:
            is_kept = bool(self._free)
            reader, writer = await self._connection()
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(fields[b"content-length"]))
            except (ConnectionError, asyncio.IncompleteReadError):
                writer.close()
                if not is_kept:
                    raise
                # It rested, and the service has closed it just now.
                continue
            self._free.append((reader, writer))
            return int(head[9:12])

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One that is free, and that the service has not closed meanwhile, as it does when they rest."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)


def _ask(port: int, pipe: Connection) -> None:
    asyncio.run(_Asker(port).serve(pipe))


class Asker:
    """Asks from a process of its own."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self.pid, self._pipe = pid, pipe

    def begin(self, questions: Questions) -> None:
        """Begin to ask; `end` waits for it."""
        self._pipe.send(questions)

    def end(self, patience_s: float = 120.0) -> Answers:
        """Wait until all is answered."""
        if not self._pipe.poll(patience_s):
            raise RuntimeError(f"questions were not answered within {patience_s:.0f} s")
        answers: Answers = self._pipe.recv()
        return answers

    def ask(self, questions: Questions) -> Answers:
        """Begin and wait."""
        self.begin(questions)
        return self.end()


@contextmanager
def asking(port: int) -> Iterator[Asker]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(port, there), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        asker = Asker(process.pid, here)
        asker.end()  # it says nothing but that it is ready
        yield asker
        here.send(None)
        process.join(10)
    finally:
        process.kill()
