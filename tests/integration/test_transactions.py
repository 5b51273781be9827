"""What a producer takes back was never there, and what it has not committed yet is not there yet: for every reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest
from kafka import KafkaProducer

from stream_tgat.agents.cluster import Cluster
from stream_tgat.commands.tail import follow
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.monitoring.follower import Follower
from stream_tgat.renewal.source_log import SourceLog
from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import read_topic
from stream_tgat.wire.packets import Source, SourceTopic
from tests.integration.transactions import abort, begin, commit, transactional

GOOD, BAD, OPEN = ([b'{"name": "%s%d"}' % (kind, n) for n in range(5)] for kind in (b"good", b"bad", b"open"))
WITHIN_S = 10.0
"""A reader that waits for records which never come gives up after half a minute."""


@pytest.fixture
def producer(topology: Topology) -> Iterator[KafkaProducer]:
    """Has written to partition 0 of `interactions`: good, bad, good, bad, and something that it has not committed."""
    ensure_topics(topology)
    topic = topology.topics.interactions
    with transactional(topology.kafka.bootstrap_servers) as made:
        commit(made, topic, GOOD[:3])
        abort(made, topic, BAD[:2])
        commit(made, topic, GOOD[3:])
        abort(made, topic, BAD[2:])
        with transactional(topology.kafka.bootstrap_servers) as other:
            begin(other, topic, OPEN)
            yield made


def _training(topology: Topology) -> list[bytes]:
    return [record.value for record in read_topic(topology, topology.topics.interactions)]


def _reencoding(topology: Topology) -> list[bytes]:
    found: list[bytes] = []
    source = Source(SourceTopic.INTERACTIONS, 0)
    with closing(SourceLog(topology)) as log:
        ends = log.ends()
        positions = dict(log.first)
        deadline = time.monotonic() + WITHIN_S
        while any(positions[each] < end for each, end in ends.items()):
            assert time.monotonic() < deadline, (positions, ends)
            batch, positions = log.poll(set(ends), 100)
            found += [record.value for record in batch.get(source, ())]
        assert source in log.at_end(positions, ends, 1.0, by_the_clock=True)
    return found


def _monitoring(topology: Topology) -> list[bytes]:
    with closing(Follower(topology, {topology.topics.interactions: 1000})) as follower:
        return [record.value for batch in follower.all_there_is(lambda *_: None) for record in batch]


def _worker_beside_the_stream(topology: Topology) -> list[bytes]:
    async def read() -> list[bytes]:
        cluster, topic = Cluster(topology.kafka), topology.topics.interactions
        await cluster.start()
        try:
            (end,) = (await cluster.ends(topic, [0])).values()
            return [record.value for record in await cluster.read(topic, 0, 0, end)]
        finally:
            await cluster.stop()

    return asyncio.run(asyncio.wait_for(read(), WITHIN_S + 10))


def _tail(topology: Topology) -> list[bytes]:
    found: list[bytes] = []
    for shown in follow(topology, topology.topics.interactions, from_start=True, poll_ms=500):
        if shown is not None:
            found.append(orjson.dumps(shown).replace(b":", b": "))
        elif len(found) >= len(GOOD):  # before the first fetch there is nothing either
            break
    return found


READERS = {
    "training": _training,
    "re-encoding": _reencoding,
    "monitoring": _monitoring,
    "the worker beside the stream": _worker_beside_the_stream,
    "tail": _tail,
}


@pytest.mark.usefixtures("producer")
def test_only_what_was_committed_is_read(topology: Topology) -> None:
    found: dict[str, list[bytes]] = {}
    for name, read in READERS.items():
        began = time.monotonic()
        found[name] = read(topology)
        assert time.monotonic() - began < WITHIN_S, f"{name} waits for what never comes"
    assert found == dict.fromkeys(READERS, GOOD)
