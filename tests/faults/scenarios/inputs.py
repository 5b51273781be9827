"""What producers may send: repeats, disorder, transactions, poison, large records, few and many nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
from kafka import KafkaProducer

from tests.faults.scenarios.register import scenario
from tests.faults.trial import Trial
from tests.integration.equality.settings import Settings
from tests.integration.equality.streams import START, Log, Record, end_of, punctuation, random_log

# Kafka's own limit for a batch is 1,048,588 bytes, its producer's for a record 1,048,576 with what surrounds the value.
_LARGEST = 1_048_576 - 200


@scenario
def repeats_and_disorder(trial: Trial) -> None:
    """One in five interactions comes again, in any partition, within five seconds of disorder; a worker is killed."""
    log = named(random_log(900, seed=trial.outcome.seed))
    trial.begin(log.with_records(_with_repeats(trial.random, log)), 40, "a", "b", expected=log)
    trial.kill_workers(2, 4.0, 10.0)
    trial.finish()


@scenario
def transactions(trial: Trial) -> None:
    """Producers write in transactions; one in three is aborted, with interactions that must never be seen."""
    log = named(random_log(600, seed=trial.outcome.seed))
    trial.deploy(log)
    trial.start("a", "b")
    topic = trial.deployment.topology.topics.interactions
    producer = KafkaProducer(bootstrap_servers=trial.servers, transactional_id=f"{trial.prefix}producer")
    trial.cleanup.callback(producer.close)
    producer.init_transactions()
    killed_at = set(trial.random.integers(20, 100, 2).tolist())
    for n, first in enumerate(range(0, len(log.records), 5)):
        records = log.records[first : first + 5]
        if n % 3 == 2:
            producer.begin_transaction()
            for record in records:
                if record.value is not None:
                    value = {**orjson.loads(record.value), "id": f"aborted-{n}", "user": "a0"}
                    producer.send(topic, key=b"", value=orjson.dumps(value), partition=record.partition)
            producer.flush()
            producer.abort_transaction()
        producer.begin_transaction()
        for record in records:
            headers = list(record.headers)
            producer.send(topic, key=b"", value=record.value, partition=record.partition, headers=headers)
        producer.commit_transaction()
        if n in killed_at:
            with trial.fault():
                trial.one().kill()
        trial.pause(0.1)
    trial.finish()


@scenario
def poison(trial: Trial) -> None:
    """One record in twenty cannot be used, in every way there is; a worker is killed among them."""
    log = random_log(1200, seed=trial.outcome.seed)
    trial.begin(log.with_records(_with_poison(trial.random, log)), 40, "a", "b")
    trial.kill_workers(2, 4.0, 10.0)
    trial.finish()
    assert trial.outcome.dead_letters >= len(trial.deployment.log.records) // 25


@scenario
def records_at_the_size_limit(trial: Trial) -> None:
    """Interactions, and records that cannot be used, as large as a producer may send them."""
    log = random_log(300, seed=trial.outcome.seed)
    trial.begin(log.with_records(_with_large(trial.random, log)), 20, "a", "b")
    trial.kill_workers(1, 4.0, 8.0)
    trial.finish()


@scenario
def one_node_with_half_of_all(trial: Trial) -> None:
    """One user has half of all interactions, and the worker that owns it is killed like the others."""
    log = random_log(1200, seed=trial.outcome.seed, users=40)
    trial.begin(log.with_records(_with_hot_node(trial.random, log)), 40, "a", "b")
    trial.kill_workers(2, 4.0, 10.0)
    trial.finish()


@scenario
def nodes_with_one_interaction(trial: Trial) -> None:
    """Every user and every item is new (10,000 nodes times the length, so a million at 100); a worker is killed."""
    nodes = round(10_000 * trial.length)
    partitions = 4
    records: list[Record] = []
    for n in range(nodes // 2):
        value = {"user": f"u{n:07d}", "item": f"i{n:07d}", "timestamp": START + n / 8, "id": f"m{n:07d}", "amount": n}
        records.append(Record(n % partitions, orjson.dumps({**value, "kind": "buy", "vector": [0.5, n % 7]})))
        if n % 2000 == 1999:
            records += punctuation(START + n / 8, partitions)
    records += end_of(START + nodes / 16, partitions)
    log = replace(random_log(10, partitions=partitions, node_features=0), records=tuple(records))
    settings = Settings(micro_batch=256, window_bytes=64 << 20, max_pending=100_000)
    trial.deploy(log, settings)
    trial.start("a", "b")
    # So many nodes are to come fast; a length does not stretch the traffic.
    seconds = max(25.0, nodes / 4000)
    trial.flow(seconds / trial.length)
    for _ in range(2):
        trial.pause(float(trial.random.uniform(0.1, 0.3)) * seconds)
        with trial.fault():
            trial.one().kill()
    trial.finish(timeout_s=240.0 + nodes / 500)


def named(log: Log) -> Log:
    """What can be used of a log, every interaction with an id of its own: nothing hangs on offsets."""
    return log.with_records(_named(log.records))


def _named(records: tuple[Record, ...]) -> Iterator[Record]:
    for n, record in enumerate(records):
        if record.value is None:
            yield record
            continue
        try:
            value = orjson.loads(record.value)
        except orjson.JSONDecodeError:
            continue
        if len(value["vector"]) == 2:
            yield replace(record, value=orjson.dumps({"id": f"n{n:06d}", **value}))


def _with_repeats(random: np.random.Generator, log: Log) -> list[Record]:
    """One in five comes again, a few records later at most."""
    partitions = log.partitions
    placed = [(float(n), record) for n, record in enumerate(log.records)]
    for n, record in enumerate(log.records):
        if record.value is not None and random.random() < 0.2:
            placed.append((n + random.uniform(0.0, 8.0), replace(record, partition=int(random.integers(partitions)))))
    return [record for _, record in sorted(placed, key=lambda each: each[0])]


def _with_poison(random: np.random.Generator, log: Log) -> list[Record]:
    """One record in twenty is one of these, in turn."""
    good: dict[str, Any] = {"user": "a1", "item": "b1", "timestamp": START, "amount": 1.0, "kind": "buy"}
    good["vector"] = [0.1, 0.2]
    bad: list[bytes] = [
        b"",
        b"\x00",
        b"not an interaction",
        b"\xff\xfe{}",
        b"[]",
        b"null",
        b"{",
        b'{"user": "\xe4"}',
        b"[" * 2000,
        orjson.dumps({**good, "user": "u" * 500}),
        orjson.dumps({**good, "user": 1.5}),
        orjson.dumps({**good, "user": ""}),
        orjson.dumps({**good, "id": "i" * 500}),
        orjson.dumps({**good, "timestamp": "yesterday"}),
        orjson.dumps({**good, "timestamp": -1e300}),
        orjson.dumps({**good, "timestamp": 1e18}),
        orjson.dumps({**good, "timestamp": None}),
        orjson.dumps({**good, "vector": [1.0]}),
        orjson.dumps({**good, "vector": ["a", "b"]}),
        orjson.dumps({**good, "vector": [1e39, 0.0]}),
        orjson.dumps({**good, "amount": "much"}),
        orjson.dumps({key: value for key, value in good.items() if key != "item"}),
    ]
    records: list[Record] = []
    n = 0
    for record in log.records:
        records.append(record)
        if random.random() < 1 / 19:
            records.append(Record(int(random.integers(log.partitions)), bad[n % len(bad)]))
            n += 1
    return records


def _with_large(random: np.random.Generator, log: Log) -> list[Record]:
    records: list[Record] = []
    for n, record in enumerate(log.records):
        if record.value is not None and n % 25 == 3:
            try:
                value = orjson.loads(record.value)
            except orjson.JSONDecodeError:
                value = {}
            room = _LARGEST - len(orjson.dumps({**value, "note": ""}))
            records.append(replace(record, value=orjson.dumps({**value, "note": "x" * room})))
            continue
        if n % 60 == 7:
            records.append(Record(int(random.integers(log.partitions)), b"y" * _LARGEST))
        records.append(record)
    return records


def _with_hot_node(random: np.random.Generator, log: Log) -> Iterator[Record]:
    for record in log.records:
        try:
            value = orjson.loads(record.value or b"")
        except orjson.JSONDecodeError:
            yield record
            continue
        if random.random() < 0.5:
            value["user"] = "a0"
        yield replace(record, value=orjson.dumps(value))
