"""The load of the whole path: one process that produces interactions, and one that reads their embeddings.

Each is a process of its own whose CPU time can be told apart, and neither waits for the other. An interaction counts
from the moment at which it was *due*, so a generator that falls behind makes latencies longer and hides nothing;
how far it fell behind is told too. JSON is made beforehand. Both use the cores that the worker uses: what they take is
measured beside it.
"""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_double, c_long
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray, RawValue
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from numpy.typing import NDArray

WIDTH = 172
#: Interactions have numbers for ids, and an embedding's JSON begins with its id.
ID_BEGINS, ID_DIGITS = len('{"id":"'), 8
DATASETS = Path(os.environ.get("DATASETS_DIR", Path(__file__).parents[3] / "shared" / "datasets"))
#: Environment variable for another number of items than the graph has, all of which come up.
ITEMS_VARIABLE = "BENCH_ITEMS"
#: No figure depends on there being more different vectors than caches hold.
_VECTORS = 4096
#: The least time between two rounds of sending: as a producer with a linger of so much.
_TICK_S = 0.002
_AT_ONCE = 500
_BATCH_BYTES = 512 * 1024


@dataclass(frozen=True)
class TemporalGraph:
    """Who meets whom, and when, in order of time. users, items: ids [N]   time: seconds [N]"""

    name: str
    users: list[bytes]
    items: list[bytes]
    time: NDArray[np.float64]


@cache
def graph() -> TemporalGraph:
    """Wikipedia's where it is, else one like it."""
    path = DATASETS / "wikipedia" / "events.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as lines:
            user, item, when = np.loadtxt(lines, delimiter=",", skiprows=1, usecols=(0, 1, 2), unpack=True)
        name = "wikipedia"
    else:
        random = np.random.default_rng(0)
        user, item = random.zipf(1.6, 150_000) % 8227, random.zipf(1.4, 150_000) % 1000
        when, name = np.sort(random.random(150_000) * 2.7e6), "synthetic"
    items = int(os.environ.get(ITEMS_VARIABLE, "0"))
    user, item = user.astype(int), item.astype(int)
    if items:
        # Ten of each as popular as one was, and each of them once at first.
        item = (10 * item + np.arange(len(item)) % 10) % items
        item[:items] = np.random.default_rng(2).permutation(items)
    # A millisecond apart at least: no two share a time, so a punctuation lies between any two.
    times = 1.5e9 + when + 1e-3 * np.arange(len(when))
    return TemporalGraph(name, [b"u%d" % n for n in user], [b"i%d" % n for n in item], times)


@dataclass(frozen=True)
class Play:
    """Interactions begin … begin + count. rate: a second, None for as fast as possible

    by_the_clock: they happen when they are sent, and nobody punctuates; else at the graph's own times, with a
    punctuation every punctuate_s seconds and one behind the last
    """

    begin: int
    count: int
    rate: float | None = None
    by_the_clock: bool = False
    punctuate_s: float = 0.02


@dataclass(frozen=True)
class Played:
    """start: when the first was due, by perf_counter   seconds: until the last had left   behind_s: the 99th percentile
    of how long after it was due an interaction was handed to the producer"""

    start: float
    seconds: float
    behind_s: float


class _Generator:
    """Lives in its process. A record is a partition, a key and the JSON up to its timestamp."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        vectors = np.random.default_rng(1).standard_normal((_VECTORS, WIDTH), dtype=np.float32).round(3)
        self._vectors = [orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY) for vector in vectors]

    async def serve(self, pipe: Connection) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._servers, enable_idempotence=True, max_batch_size=_BATCH_BYTES
        )
        await self._producer.start()
        try:
            self._partitions = len(await self._producer.partitions_for(self._topic))
            pipe.send(None)
            while (play := await asyncio.to_thread(pipe.recv)) is not None:
                pipe.send(await self._play(play))
        finally:
            await self._producer.stop()

    def _records(self, play: Play) -> list[tuple[int, bytes, bytes, float]]:
        known = graph()
        size, span = len(known.users), float(known.time[-1] - known.time[0]) + 1.0
        records = []
        for n in range(play.begin, play.begin + play.count):
            rounds, at = divmod(n, size)
            user = known.users[at]
            value = b'{"id":"%0*d","user":"%b","item":"%b","features":%b,"timestamp":' % (
                ID_DIGITS, n, user, known.items[at], self._vectors[n % _VECTORS],
            )  # fmt: skip
            records.append((zlib.crc32(user) % self._partitions, user, value, float(known.time[at]) + rounds * span))
        return records

    async def _play(self, play: Play) -> Played:
        records = self._records(play)
        behind = np.zeros(play.count)
        acknowledged: set[asyncio.Future[Any]] = set()
        start = time.perf_counter() + 0.05
        # By the clock an interaction happens when it is due.
        clock = time.time() - time.perf_counter()
        punctuated_at, sent = start, 0
        while sent < play.count:
            now = time.perf_counter()
            due = play.count if play.rate is None else min(play.count, int((now - start) * play.rate) + 1)
            end = min(due, sent + _AT_ONCE)
            if end <= sent or now < start:
                await asyncio.sleep(_TICK_S)
                continue
            batches: dict[int, list[Any]] = {}
            for n in range(sent, end):
                partition, key, value, when = records[n]
                if play.rate is not None:
                    due_at = start + n / play.rate
                    behind[n] = now - due_at
                    when = due_at + clock if play.by_the_clock else when
                self._append(batches, partition, key, b"%b%r}" % (value, when), [])
            sent = end
            if not play.by_the_clock and (now - punctuated_at >= play.punctuate_s or sent == play.count):
                punctuated_at = now
                # Just before the next one; behind the last, just behind it.
                watermark = records[sent][3] if sent < play.count else float(np.nextafter(records[-1][3], np.inf))
                headers = [("watermark", repr(watermark).encode())]
                for partition in range(self._partitions):
                    self._append(batches, partition, None, None, headers)
            for partition, builders in batches.items():
                for batch in builders:
                    future = await self._producer.send_batch(batch, self._topic, partition=partition)
                    acknowledged.add(future)
                    future.add_done_callback(acknowledged.discard)
            # At least one turn of the loop, in which the producer sends; at a rate the rest of a tick.
            await asyncio.sleep(_TICK_S if play.rate is not None and sent < play.count else 0)
        seconds = time.perf_counter() - start
        await asyncio.gather(*acknowledged)
        return Played(start, seconds, float(np.percentile(behind, 99)))

    def _append(
        self, batches: dict[int, list[Any]], partition: int, key: bytes | None, value: bytes | None, headers: list[Any]
    ) -> None:
        builders = batches.setdefault(partition, [])
        record = {"timestamp": None, "key": key, "value": value, "headers": headers}
        if not builders or builders[-1].append(**record) is None:
            builders.append(self._producer.create_batch())
            builders[-1].append(**record)


def _generate(servers: str, topic: str, pipe: Connection) -> None:
    asyncio.run(_Generator(servers, topic).serve(pipe))


class Generator:
    """Plays interactions from a process of its own."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self.pid, self._pipe = pid, pipe

    def begin(self, play: Play) -> None:
        """Begin to play; `end` waits for it."""
        self._pipe.send(play)

    def end(self, patience_s: float = 120.0) -> Played:
        """Wait until all of it is in the log."""
        if not self._pipe.poll(patience_s):
            raise RuntimeError(f"the generator was not done within {patience_s:.0f} s")
        played: Played = self._pipe.recv()
        return played

    def play(self, play: Play) -> Played:
        """Begin and wait."""
        self.begin(play)
        return self.end()


@contextmanager
def generating(servers: str, topic: str) -> Iterator[Generator]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_generate, args=(servers, topic, there), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        generator = Generator(process.pid, here)
        generator.end()  # it says nothing but that it is ready
        yield generator
        here.send(None)
        process.join(10)
    finally:
        process.kill()


def _read(servers: str, topic: str, count: Any, arrived: Any, ready: Any) -> None:
    asyncio.run(_read_for_ever(servers, topic, count, arrived, ready))


async def _read_for_ever(servers: str, topic: str, count: Any, arrived: Any, ready: Any) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, max_partition_fetch_bytes=4 << 20, fetch_max_wait_ms=100, check_crcs=False
    )
    await consumer.start()
    partitions = await consumer._client.fetch_all_metadata()
    consumer.assign([TopicPartition(topic, p) for p in sorted(partitions.partitions_for_topic(topic))])
    await consumer.seek_to_end()
    for place in consumer.assignment():
        await consumer.position(place)
    ready.set()
    times = np.frombuffer(arrived, np.float64).reshape(-1, 2)
    while True:
        batches = await consumer.getmany(timeout_ms=1000)
        now = time.perf_counter()
        for records in batches.values():
            for record in records:
                of = times[int(record.value[ID_BEGINS : ID_BEGINS + ID_DIGITS])]
                of[1 if of[0] else 0] = now
            count.value += len(records)


class Reader:
    """Notes when embeddings arrive. arrived: [interactions, 2] perf_counter seconds, 0 before"""

    def __init__(self, pid: int, count: Any, arrived: Any) -> None:
        self.pid, self._count = pid, count
        self.arrived: NDArray[np.float64] = np.frombuffer(arrived, np.float64).reshape(-1, 2)

    @property
    def count(self) -> int:
        """How many have come."""
        return int(self._count.value)

    def has_all(self, begin: int, end: int) -> bool:
        """Whether both embeddings of interactions begin … end are there."""
        return bool((self.arrived[begin:end] > 0).all())

    def latency_s(self, play: Play, played: Played) -> NDArray[np.float64]:
        """From when each interaction was due to when its embeddings came: [count, 2]."""
        assert play.rate is not None
        due = played.start + np.arange(play.count) / play.rate
        return self.arrived[play.begin : play.begin + play.count] - due[:, None]


@contextmanager
def reading(servers: str, topic: str, interactions: int) -> Iterator[Reader]:
    """interactions: no id is larger"""
    fresh = multiprocessing.get_context("spawn")
    count, arrived, ready = RawValue(c_long, 0), RawArray(c_double, 2 * interactions), fresh.Event()
    process = fresh.Process(target=_read, args=(servers, topic, count, arrived, ready), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        if not ready.wait(60):
            raise RuntimeError("the reader could not begin within 60 s")
        yield Reader(process.pid, count, arrived)
    finally:
        process.kill()
