"""`tail` shows what a real broker holds of embeddings, alerts and latest."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import orjson
from click.testing import CliRunner, Result
from kafka import KafkaProducer

from stream_tgat.commands.tail import follow, tail_command
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.topology import Serving, Topology
from stream_tgat.wire import AlertEncoder, EmbeddingEncoder, LatestEncoder, output_headers


def _produce(topology: Topology, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    producer = KafkaProducer(bootstrap_servers=topology.kafka.bootstrap_servers)
    for key, value in records:
        producer.send(topic, key=key, value=value, headers=output_headers(topology, 3, "interactions", 0, 1))
    producer.flush()
    producer.close()


def _embeddings(topology: Topology, nodes: list[bytes]) -> list[tuple[bytes, bytes]]:
    encode = EmbeddingEncoder(topology).encode
    vector, none = np.arange(3, dtype=np.float32), np.zeros(0, np.float32)
    return [
        encode(
            interaction=b"x/%d" % i,
            node=node,
            peer=b"itea",
            side=0,
            timestamp=float(i),
            embedding=vector,
            predictions=none,
            model=3,
            late=False,
        )
        for i, node in enumerate(nodes)
    ]


def _tail(topology: Topology, *arguments: str) -> Result:
    result = CliRunner().invoke(tail_command(topology), arguments)
    assert result.exit_code == 0, result.output
    return result


def test_tail_from_the_start_shows_what_is_there(topology: Topology) -> None:
    for form in ("json", "msgpack"):
        kafka = topology.kafka.model_copy(update={"output_format": form})
        topology = topology.model_copy(update={"kafka": kafka})
        ensure_topics(topology)
        _produce(topology, topology.topics.embeddings, _embeddings(topology, [b"uann", b"ubob", b"uann"]))
    shown = _tail(topology, "embeddings", "--from-start", "--json", "--node", "ann", "--limit", "4").output
    contents = [orjson.loads(line) for line in shown.splitlines()]
    assert sorted(content["timestamp"] for content in contents) == [0.0, 0.0, 2.0, 2.0]
    assert all(content["embedding"] == [0.0, 1.0, 2.0] for content in contents)
    named = _tail(topology, "embeddings", "--from-start", "--json", "--node", "user/bob", "--limit", "2").output
    assert [orjson.loads(line)["node"] for line in named.splitlines()] == ["bob", "bob"]
    pretty = _tail(topology, "embeddings", "--from-start", "--limit", "6").output
    assert len(pretty.splitlines()) == 6
    assert pretty.count("bob") == 2


def test_alerts_are_shown_with_their_reasons(topology: Topology) -> None:
    ensure_topics(topology)
    because = [(b"itea", b"x/0", 0.0, 0.8)]
    alert = AlertEncoder(topology).encode(
        interaction=b"x/1",
        node=b"uann",
        peer=b"itea",
        head="ban",
        probability=0.9,
        threshold=0.5,
        timestamp=120.0,
        model=3,
        because=because,
    )
    _produce(topology, topology.topics.alerts, [alert])
    lines = _tail(topology, "alerts", "--from-start", "--limit", "1").output.splitlines()
    assert "ban" in lines[0]
    assert "ann" in lines[0]
    assert lines[1].split() == ["80%", "tea", "2", "min", "before"]


def test_latest_is_shown_where_it_is_written_and_said_to_be_off_elsewhere(topology: Topology) -> None:
    off = CliRunner().invoke(tail_command(topology), ["latest"])
    assert off.exit_code == 1
    assert "set latest = true under [serving]" in off.output
    topology = topology.model_copy(update={"serving": Serving(latest=True)})
    ensure_topics(topology)
    encode = LatestEncoder(topology).encode
    vector, none = np.arange(5, dtype=np.float32), np.zeros(0)
    records = [
        encode(
            node=node,
            timestamp=0.0,
            interactions=1234,
            probability=none,
            is_complete=is_complete,
            model=3,
            embedding=vector,
        )
        for node, is_complete in ((b"uann", True), (b"itea", False))
    ]
    _produce(topology, topology.topics.latest, records)
    lines = _tail(topology, "latest", "--from-start", "--limit", "2").output.splitlines()
    (ann,) = (line for line in lines if "ann" in line)
    (tea,) = (line for line in lines if "tea" in line)
    assert "1,234 interactions" in ann
    assert "incomplete" in tea
    assert "incomplete" not in ann


def test_tail_follows_only_what_comes_after_it_began(topology: Topology) -> None:
    ensure_topics(topology)
    topic = topology.topics.embeddings
    _produce(topology, topic, _embeddings(topology, [b"uold"]))
    following = follow(topology, topic, poll_ms=50)
    assert next(following) is None
    _produce(topology, topic, _embeddings(topology, [b"unew"]))
    seen: list[dict[str, Any]] = []
    deadline = time.monotonic() + 20
    while not seen and time.monotonic() < deadline:
        seen += [content for content in [next(following)] if content is not None]
    following.close()
    assert [content["node"] for content in seen] == ["new"]


def test_record_that_no_worker_wrote_is_named(topology: Topology) -> None:
    ensure_topics(topology)
    _produce(topology, topology.topics.alerts, [(b"x", b"not json")])
    result = CliRunner().invoke(tail_command(topology), ["alerts", "--from-start"])
    assert result.exit_code == 1
    assert "was not written by a worker: not valid JSON" in result.output
