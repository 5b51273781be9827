"""What the path cannot be faster than: the model's arithmetic and reading, the broker alone, and a client alone.

Broker and client move the same bytes as a worker does for each interaction, in large batches, and do nothing else: the
client reads `interactions` and sends as many bytes as there are in packets, embeddings and changelog.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker import Broker
from figures import Figure
from kafka.admin import KafkaAdminClient, NewTopic
from load import WIDTH, Play, generating
from processes import Meter
from speed import read_gbytes, sgemm_gflops

COUNT = 20_000
PARTITIONS = 8
#: Rows see K neighbours, H heads, states and edges of WIDTH numbers, T of time; L layers, two ends.
K, H, T, L, SIDES = 20, 2, 100, 2, 2
#: Bytes that a worker sends for each interaction, by topic: two half-edges and two messages with vectors; two
#: embeddings in JSON; two rows and a message in each, heads and keys, in the changelog.
SENT = {"packets": 2 * (4 * WIDTH + 150) + 2 * (4 * WIDTH + 150), "outputs": 2 * 2_400, "log": 2 * 2_300}


def flops() -> float:
    """Of one interaction, with keys and values never formed (see `nn/attention.py`): O(K d + d²) for each row."""
    z = WIDTH + WIDTH + T
    fold = 2 * (WIDTH * WIDTH + WIDTH * z)  # the query, then W_K into it
    attend = 2 * 2 * H * K * z  # scores and weighted sums
    finish = 2 * z * WIDTH + 2 * (2 * WIDTH * WIDTH + WIDTH * WIDTH)  # W_V, and the network on top
    return float(SIDES * L * (fold + attend + finish))


def bytes_read() -> float:
    """Of one interaction: the rows that its targets see, each layer from the memory where they lie."""
    return float(SIDES * L * K * 4 * (WIDTH + WIDTH))


def run() -> list[Figure]:
    gflops, gbytes = sgemm_gflops(), read_gbytes()
    computed = {"flops": flops(), "gflops": round(gflops, 1)}
    read = {"bytes": bytes_read(), "gbytes_per_s": round(gbytes, 1)}
    return [
        Figure("limit_flops_us", 1e-3 * flops() / gflops, "us", context=computed),
        Figure("limit_bytes_us", 1e-3 * bytes_read() / gbytes, "us", context=read),
        *_of_kafka(),
    ]


def _of_kafka() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        servers = broker.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in ("interactions", *SENT)])
        admin.close()
        with generating(servers, "interactions") as generator:
            assert broker.pid is not None
            generator.play(Play(0, 2_000))  # the broker compiles what it does often
            meter = Meter({"broker": broker.pid, "generator": generator.pid})
            generator.play(Play(2_000, COUNT))
            load = meter.usage()
        meter = Meter({"broker": broker.pid, "client": os.getpid()})
        began = time.perf_counter()
        count = asyncio.run(_client(servers))
        seconds = time.perf_counter() - began
        client = meter.usage()
    context = {"interactions": count, "bytes_sent": sum(SENT.values()), "beside_cores": round(client.beside_cores, 2)}
    return [
        Figure("limit_client_us", client.us("client", count), "us", context=context),
        Figure("limit_broker_us", client.us("broker", count), "us", context=context),
        Figure("limit_client_per_s", count / seconds, "/s", more_is_better=True, context=context),
        Figure("limit_generator_us", load.us("generator", COUNT), "us", context={"interactions": COUNT}),
        Figure("limit_broker_intake_us", load.us("broker", COUNT), "us", context={"interactions": COUNT}),
    ]


async def _client(servers: str) -> int:
    """Read all interactions and send what a worker would; returns how many."""
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, max_partition_fetch_bytes=4 << 20)
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, max_batch_size=900_000)
    await consumer.start()
    await producer.start()
    try:
        places = [TopicPartition("interactions", p) for p in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning()
        ends, count = await consumer.end_offsets(places), 0
        values = {topic: bytes(size) for topic, size in SENT.items()}
        while any([await consumer.position(place) < end for place, end in ends.items()]):
            waiting = []
            for place, records in (await consumer.getmany(timeout_ms=100, max_records=512)).items():
                count += sum(record.value is not None for record in records)
                for topic, value in values.items():
                    batch = producer.create_batch()
                    for _ in records:
                        if batch.append(timestamp=None, key=None, value=value) is None:
                            waiting.append(await producer.send_batch(batch, topic, partition=place.partition))
                            batch = producer.create_batch()
                            batch.append(timestamp=None, key=None, value=value)
                    waiting.append(await producer.send_batch(batch, topic, partition=place.partition))
            await asyncio.gather(*waiting)
        return count
    finally:
        await producer.stop()
        await consumer.stop()
