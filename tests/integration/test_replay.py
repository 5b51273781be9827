"""Replay into a real broker: order, partitions, punctuation, pace; and what tail shows of what workers produce."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from click.testing import CliRunner
from kafka.admin import KafkaAdminClient

from stream_tgat.commands.replay import Pace, replay_command, send_paced
from stream_tgat.commands.replayer import open_replayer
from stream_tgat.commands.topics import ensure_topics
from stream_tgat.datasets.stream import StreamRecord, punctuation, record
from stream_tgat.errors import DataError, TopicError
from stream_tgat.topology import Head, Time, Topology
from stream_tgat.wire import InteractionDecoder, Punctuation


@pytest.fixture
def topology(topology: Topology) -> Topology:
    """With the clock under which a replay punctuates."""
    return topology.model_copy(update={"time": Time(clock="event")})


async def _read(topology: Topology, topic: str) -> list[list[Any]]:
    """All records of a topic, by partition, in offset order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=topology.kafka.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(topology.kafka.partitions)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        read: list[list[Any]] = [[] for _ in partitions]
        while any(len(read[tp.partition]) < end for tp, end in ends.items()):
            for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                read[tp.partition] += records
        return read
    finally:
        await consumer.stop()


def read(topology: Topology, topic: str) -> list[list[Any]]:
    return asyncio.run(_read(topology, topic))


def send(topology: Topology, chunks: Iterable[list[StreamRecord]], **settings: Any) -> None:
    async def run() -> None:
        async with open_replayer(topology, **settings) as replayer:
            for chunk in chunks:
                await replayer.send(chunk)
            await replayer.finish()

    asyncio.run(run())


def events(count: int, users: int = 37) -> list[StreamRecord]:
    """Interactions two of which always share a time."""
    return [
        record(
            "interactions",
            f"u{i % users}",
            {"user": f"u{i % users}", "item": "tea", "timestamp": i // 2, "n": i},
            i // 2,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("chunk", [1, 7, 5000])
def test_replay_keeps_users_in_their_partition_and_every_promise(topology: Topology, chunk: int) -> None:
    ensure_topics(topology)
    sent = events(400 if chunk == 1 else 5000)
    send(topology, (sent[i : i + chunk] for i in range(0, len(sent), chunk)), punctuate_every=100)

    seen = []
    promised = [float("-inf")] * 4
    decode = InteractionDecoder(topology).decode
    for partition, records in enumerate(read(topology, topology.topics.interactions)):
        for each in records:
            if each.value is None:
                decoded = decode(each.value, each.headers, each.topic, partition, each.offset, time.time())
                assert isinstance(decoded, Punctuation)
                assert decoded.watermark >= promised[partition]
                promised[partition] = decoded.watermark
                continue
            assert zlib.crc32(each.key) % 4 == partition
            value = orjson.loads(each.value)
            assert each.key == value["user"].encode()
            assert value["timestamp"] >= promised[partition]
            seen.append(value["n"])
    assert sorted(seen) == list(range(len(sent)))
    # Beyond the last event, which would otherwise wait for another of its time.
    assert promised == [math.nextafter(sent[-1].time, math.inf)] * 4


def test_every_partition_hears_of_progress_although_all_events_go_to_one(topology: Topology) -> None:
    ensure_topics(topology)
    sent = events(1000, users=1)
    send(topology, [sent], punctuate_every=100)
    home = zlib.crc32(b"u0") % 4
    for partition, records in enumerate(read(topology, topology.topics.interactions)):
        marks = [float(dict(each.headers)["watermark"]) for each in records if each.value is None]
        assert marks[:10] == [49.0, 99.0, 149.0, 199.0, 249.0, 299.0, 349.0, 399.0, 449.0, 499.0]
        assert sum(each.value is not None for each in records) == (1000 if partition == home else 0)


def test_event_out_of_order_is_refused_unless_late_ones_are_allowed(topology: Topology) -> None:
    ensure_topics(topology)
    backwards = [events(12)[i] for i in (10, 11, 3)]
    with pytest.raises(DataError, match="an event at 1 comes after one at 5"):
        send(topology, [backwards])

    async def allowed() -> int:
        async with open_replayer(topology, allow_late=True) as replayer:
            await replayer.send(backwards)
            await replayer.finish()
            assert replayer.watermark == math.nextafter(5, math.inf)
            return replayer.late

    assert asyncio.run(allowed()) == 1


def test_by_the_wall_clock_the_topic_holds_only_what_was_sent(topology: Topology) -> None:
    topology = topology.model_copy(update={"time": Time(clock="wall")})
    ensure_topics(topology)
    send(topology, [events(3000)])
    records = [each for records in read(topology, topology.topics.interactions) for each in records]
    assert sorted(orjson.loads(each.value)["n"] for each in records) == list(range(3000))


def test_labels_nodes_and_given_punctuation_go_where_they_belong(topology: Topology) -> None:
    ensure_topics(topology)
    stream = [
        record("nodes", "tea", {"node": "tea", "features": []}, 0.0),
        record("labels", "ann", {"node": "ann", "label": "x", "value": 1, "timestamp": 1.0}, 1.0, known_at=True),
        punctuation(123.5),
    ]
    send(topology, [stream])
    (label,) = [each for records in read(topology, topology.topics.labels) for each in records]
    content = orjson.loads(label.value)
    assert (label.key, content["label"], content["known_at"]) == (b"ann", "x", 1.0)
    (node,) = [each for records in read(topology, topology.topics.nodes) for each in records]
    assert node.key == b"tea"
    for records in read(topology, topology.topics.interactions):
        assert {float(dict(each.headers)["watermark"]) for each in records} == {123.5}


def test_records_larger_than_a_batch_arrive(topology: Topology) -> None:
    ensure_topics(topology)
    large = [record("interactions", "ann", {"timestamp": i, "text": "x" * 300_000}, float(i)) for i in range(4)]
    large.append(record("interactions", "ann", {"timestamp": 4, "text": "x" * 900_000}, 4.0))
    send(topology, [large])
    values = [each.value for records in read(topology, topology.topics.interactions) for each in records if each.value]
    assert values == [each.value for each in large]


def test_record_that_the_broker_refuses_is_an_error(topology: Topology) -> None:
    admin = KafkaAdminClient(bootstrap_servers=topology.kafka.bootstrap_servers)
    small = {"num_partitions": 4, "configs": {"max.message.bytes": "10000"}}
    admin.create_topics({topology.topics.interactions: small}, wait_for_metadata=True)
    admin.close()
    with pytest.raises(TopicError, match="the broker refused a record"):
        send(topology, [[record("interactions", "ann", {"text": "x" * 11_000}, 0.0)]])


def test_missing_topic_is_named(topology: Topology) -> None:
    with pytest.raises(TopicError, match=f"{topology.topics.interactions}.*topics create"):
        send(topology, [events(1)])


def test_replay_at_a_rate_takes_its_time_and_punctuates_by_the_clock(topology: Topology) -> None:
    ensure_topics(topology)

    async def run() -> float:
        async with open_replayer(topology) as replayer:
            start = time.monotonic()
            await send_paced(replayer, iter(events(300)), Pace(rate=300))
            return time.monotonic() - start

    assert asyncio.run(run()) >= 299 / 300
    for records in read(topology, topology.topics.interactions):
        # There are too few events for any that does not come by the clock; a busy machine is late with them.
        assert any(each.value is None for each in records)


def test_replay_is_faster_than_life_by_its_speed(topology: Topology) -> None:
    ensure_topics(topology)

    async def run() -> float:
        async with open_replayer(topology) as replayer:
            start = time.monotonic()
            await send_paced(replayer, iter(events(400)), Pace(speed=400))
            return time.monotonic() - start

    assert asyncio.run(run()) >= 199 / 400


def test_command_sends_a_file_and_says_how_much(topology: Topology, tmp_path: Path) -> None:
    ensure_topics(topology)
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(each.value for each in events(100) if each.value) + b"\n")
    result = CliRunner().invoke(replay_command(topology), [str(file), "--limit", "60"])
    assert result.exit_code == 0, result.output
    assert "sent 60 records" in result.output
    values = [each.value for records in read(topology, topology.topics.interactions) for each in records if each.value]
    assert sorted(orjson.loads(value)["n"] for value in values) == list(range(60))


def test_nothing_is_sent_while_a_row_is_bad_unless_asked(topology: Topology, tmp_path: Path) -> None:
    ensure_topics(topology)
    file = tmp_path / "events.csv"
    file.write_bytes(b"user,item,timestamp\nann,tea,1\n\xe9va,tea,2\nbob,,3\ndan,tea,9e9\ncid,tea,4\n")

    def replay(*options: str) -> tuple[int, str, list[str]]:
        """Exit code, what was said, and the users in the topic."""
        result = CliRunner().invoke(replay_command(topology), [str(file), *options])
        values = [each.value for records in read(topology, topology.topics.interactions) for each in records]
        return result.exit_code, result.output, sorted(orjson.loads(value)["user"] for value in values if value)

    assert replay("--check", "--limit", "1") == (0, "events.csv: 1 rows, all good; nothing was sent (--check)\n", [])
    told = (
        "        1  events.csv, line 3: column 'user' is not UTF-8: it holds the byte E9, as Latin-1 has it; save as "
        "UTF-8\n        1  events.csv, line 4: field 'item' is missing (on what)\n"
        "        1  events.csv, line 5: field 'timestamp' is "
    )
    for options in ([], ["--check"]):
        code, output, users = replay(*options)
        assert (code, users) == (1, [])
        assert output.startswith(told)
        assert "events.csv: 3 of 5 rows are bad, and nothing was sent" in output
    code, output, users = replay("--bad", "skip")
    assert (code, users) == (0, ["ann", "cid"])
    assert output.startswith(f"left out 3 of 5 rows:\n{told}")
    assert "sent 2 records in" in output
    # What cannot be read cannot be sent either.
    code, output, users = replay("--bad", "send")
    assert (code, users) == (0, ["ann", "ann", "bob", "cid", "cid", "dan"])
    assert "left out 1 of 5 rows:" in output
    marks = [
        float(dict(each.headers)["watermark"])
        for records in read(topology, topology.topics.interactions)
        for each in records
        if each.value is None
    ]
    assert max(marks) == math.nextafter(4, math.inf), "a bad time is no progress"


def test_command_on_a_jodie_file_sends_interactions_and_labels(topology: Topology, tmp_path: Path) -> None:
    topology = Topology.model_validate(
        topology.model_dump() | {"features": [{"name": "v", "kind": "vector", "size": 2}], "heads": [Head(name="ban")]}
    )
    ensure_topics(topology)
    file = tmp_path / "wikipedia.csv"
    file.write_text(
        "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
        "0,0,0.0,0,-0.175063,0.5\n1,1,36.0,0,0,1e-05\n0,2,77.5,1,1,2\n"
    )
    result = CliRunner().invoke(replay_command(topology), [str(file), "--format", "jodie"])
    assert result.exit_code == 0, result.output
    values = [
        orjson.loads(each.value)
        for records in read(topology, topology.topics.interactions)
        for each in records
        if each.value
    ]
    assert sorted(values, key=lambda value: value["timestamp"]) == [
        {"user": "0", "item": "0", "timestamp": 0.0, "v": [-0.175063, 0.5]},
        {"user": "1", "item": "1", "timestamp": 36.0, "v": [0.0, 1e-05]},
        {"user": "0", "item": "2", "timestamp": 77.5, "v": [1.0, 2.0]},
    ]
    labels = [orjson.loads(each.value) for records in read(topology, topology.topics.labels) for each in records]
    assert sorted(labels, key=lambda value: value["timestamp"]) == [
        {"node": "0", "label": "ban", "value": False, "timestamp": 0.0},
        {"node": "1", "label": "ban", "value": False, "timestamp": 36.0},
        {"node": "0", "label": "ban", "value": True, "timestamp": 77.5},
    ]


def test_interrupt_ends_a_replay_with_a_count_and_no_traceback(topology: Topology, tmp_path: Path) -> None:
    ensure_topics(topology)
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(each.value for each in events(2000) if each.value))
    script = (
        "import sys; from stream_tgat.topology import Topology\n"
        "from stream_tgat.commands.replay import replay_command\n"
        "replay_command(Topology.model_validate_json(sys.argv[1]))(sys.argv[2:])"
    )
    command = [sys.executable, "-c", script, topology.model_dump_json(), str(file), "--rate", "20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)
    with process:
        deadline = time.monotonic() + 60
        while not any(read(topology, topology.topics.interactions)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in output
    assert output.startswith("sent ")
