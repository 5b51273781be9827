"""How long an event is on its way from its producer to the broker: what `time.allowed_lateness_s` has to cover.

Producers take the time of an event, send it at once to one of eight partitions drawn at random, and the broker notes
when it has written it. All are processes on this machine and share its clock.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from aiokafka import AIOKafkaProducer
from broker import Broker
from figures import Figure
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

PARTITIONS = 8
SECONDS = 8.0
#: Sent first, so that nobody waits for a connection or for metadata.
WARM_UP = 50
#: The library, what it is told of linger, producers, and events a second of each.
LOADS: list[tuple[str, float | None, int, float]] = [
    (library, linger_ms, producers, rate)
    for library in ("kafka-python", "aiokafka")
    for linger_ms, producers, rate in (
        (None, 1, 10.0),
        (None, 4, 100.0),
        (5, 4, 100.0),
        (20, 4, 100.0),
        (100, 4, 100.0),
    )
]


def moments(rate: float, seed: int) -> Iterator[float]:
    """When events happen, in seconds from the beginning: at random, so many a second."""
    draw = random.Random(seed)
    for moment in accumulate(draw.expovariate(rate) for _ in iter(int, 1)):
        if moment > SECONDS:
            return
        yield moment


def with_kafka_python(servers: str, topic: str, options: dict[str, Any], rate: float, seed: int) -> None:
    producer, draw = KafkaProducer(bootstrap_servers=servers, **options), random.Random(seed)
    for n in range(WARM_UP):
        producer.send(topic, b"", partition=n % PARTITIONS)
    producer.flush()
    start = time.perf_counter()
    for moment in moments(rate, seed):
        time.sleep(max(0.0, start + moment - time.perf_counter()))
        producer.send(topic, repr(time.time()).encode(), partition=draw.randrange(PARTITIONS))
    producer.close()


def with_aiokafka(servers: str, topic: str, options: dict[str, Any], rate: float, seed: int) -> None:
    async def play() -> None:
        producer, draw = AIOKafkaProducer(bootstrap_servers=servers, **options), random.Random(seed)
        await producer.start()
        for n in range(WARM_UP):
            await producer.send(topic, b"", partition=n % PARTITIONS)
        await producer.flush()
        start = time.perf_counter()
        for moment in moments(rate, seed):
            await asyncio.sleep(max(0.0, start + moment - time.perf_counter()))
            await producer.send(topic, repr(time.time()).encode(), partition=draw.randrange(PARTITIONS))
        await producer.stop()

    asyncio.run(play())


PLAYERS: dict[str, Callable[..., None]] = {"kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


def delays_ms(servers: str, topic: str) -> list[float]:
    """From the time of each event to when the broker had it. Brokers note whole milliseconds, cut off."""
    consumer = KafkaConsumer(bootstrap_servers=servers)
    places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    ends, found = consumer.end_offsets(places), []
    while any(consumer.position(place) < end for place, end in ends.items()):
        for records in consumer.poll(timeout_ms=200).values():
            found += [each.timestamp + 0.5 - 1e3 * float(each.value) for each in records if each.value]
    consumer.close()
    return found


def measure(servers: str, number: int) -> list[Figure]:
    library, linger_ms, producers, rate = LOADS[number]
    topic = f"delay-{number}"
    admin = KafkaAdminClient(bootstrap_servers=servers)
    by_the_broker = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=by_the_broker)])
    admin.close()
    options = {} if linger_ms is None else {"linger_ms": linger_ms}
    fresh = multiprocessing.get_context("spawn")
    processes = [
        fresh.Process(target=PLAYERS[library], args=(servers, topic, options, rate, seed)) for seed in range(producers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = delays_ms(servers, topic)
    context = {
        "client": library,
        "linger_ms": "default" if linger_ms is None else linger_ms,
        "producers": producers,
        "rate": rate * producers,
        "events": len(found),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    linger = "default" if linger_ms is None else linger_ms
    prefix = f"delay_{library}_linger_{linger}_{producers}x{rate:.0f}"
    return [Figure(f"{prefix}_p{q}_ms", float(np.percentile(found, q)), "ms", context=context) for q in (50, 99, 99.9)]


def run() -> list[Figure]:
    """All loads, one after the other."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        return [result for number in range(len(LOADS)) for result in measure(broker.bootstrap_servers, number)]
