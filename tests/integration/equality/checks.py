"""Whether what came out of Kafka is what the oracle says, and whether the state that is left is the oracle's."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rocksdict import AccessType, Options, Rdict

from stream_tgat.engine import AlertPolicy, Engine
from stream_tgat.message_passing.progress import RESERVED_KEY
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.topology import split_node_key
from stream_tgat.wire import kind_and_id
from tests.integration.equality.deployment import Deployment
from tests.integration.equality.oracle import TOLERANCE, Oracle
from tests.integration.equality.received import records_of
from tests.integration.equality.settings import HEADS
from tests.kept_rows import KeptRows, kept_rows

_FAUST_OFFSET = b"__faust\0offset__"


@dataclass
class Report:
    """How far outputs and state are from the oracle's."""

    embeddings: int = 0
    embedding_difference: float = 0.0
    prediction_difference: float = 0.0
    alerts: int = 0
    repeats: int = 0
    repeat_difference: float = 0.0
    latest_difference: float = 0.0
    nodes: int = 0
    rows: int = 0
    peer_embedding_difference: float = 0.0


def assert_equal(deployment: Deployment, oracle: Oracle, *, state: bool = True) -> Report:
    """Outputs and, with all workers stopped, the state equal the oracle's; how close they are."""
    report = Report(repeats=deployment.outputs.repeats, repeat_difference=deployment.outputs.repeat_difference)
    assert report.repeat_difference <= TOLERANCE
    _check_embeddings(deployment, oracle, report)
    _check_alerts(deployment, oracle, report)
    topic = deployment.topology.topics.interactions
    assert deployment.outputs.dead_letters.keys() == {(topic, str(p), str(offset)) for p, offset in oracle.dead_letters}
    check_latest(deployment, oracle, report)
    if state:
        _check_state(deployment, oracle, report)
    return report


def finish(deployment: Deployment, oracle: Oracle) -> Report:
    """Wait for all that the oracle has, stop the workers, and compare: how close outputs and state are."""
    deployment.wait_for(len(oracle.embeddings))
    deployment.stop()
    return assert_equal(deployment, oracle)


def check_latest(deployment: Deployment, oracle: Oracle, report: Report | None = None) -> None:
    """The newest record of each node on topic `latest` is the oracle's embedding just after its newest interaction."""
    report = report or Report()
    newest: dict[bytes, dict[str, Any]] = {}
    for records in records_of(deployment.servers, deployment.topology.topics.latest).values():
        newest |= {record.key: deployment.values.fields(record.value, record.headers) for record in records}
    expected = oracle.latest()
    assert newest.keys() == {kind_and_id(node) for node in expected}
    for node, (time, degree, embedding) in expected.items():
        found = newest[kind_and_id(node)]
        assert (found["timestamp"], found["interactions"], found["complete"]) == (time, degree, True), node
        assert found["model"] == oracle.version, node
        difference = _distance(np.array(found["embedding"]), embedding)
        assert difference <= TOLERANCE, f"{node!r}: its embedding on topic `latest` is off by {difference:g}"
        report.latest_difference = max(report.latest_difference, difference)


def _check_embeddings(deployment: Deployment, oracle: Oracle, report: Report) -> None:
    found = deployment.outputs.embeddings
    expected = {f"{key[0]}/{key[1]}/{oracle.version}": each for key, each in oracle.embeddings.items()}
    missing = expected.keys() - found.keys()
    assert not missing, f"{len(missing)} embeddings are missing, for example {sorted(missing)[:3]}"
    extra = found.keys() - expected.keys()
    assert not extra, f"{len(extra)} embeddings too many, for example {sorted(extra)[:3]}"
    for name, vector in expected.items():
        came = found[name]
        kind, node = split_node_key(vector.node)
        assert (came["node"], came.get("kind")) == (node, kind), name
        assert name.startswith(came["interaction"] + "/"), name
        assert came["timestamp"] == vector.time, name
        assert came.get("late", False) == vector.late, name
        assert came["model"] == oracle.version, name
        difference = _distance(np.array(came["embedding"]), vector.embedding)
        assert difference <= TOLERANCE, f"{name}: embedding is off by {difference:g}"
        report.embedding_difference = max(report.embedding_difference, difference)
        side = int(name.split("/")[-2])
        assert list(came["predictions"]) == (list(HEADS) if side == 0 else []), name
        if side == 0:
            difference = _distance(np.array(list(came["predictions"].values())), vector.predictions)
            assert difference <= TOLERANCE, f"{name}: prediction is off by {difference:g}"
            report.prediction_difference = max(report.prediction_difference, difference)
    report.embeddings = len(expected)
    for node, keys in oracle.order.items():
        kind, name = split_node_key(node)
        came = deployment.outputs.order[f"{kind}:{name}"]
        in_time = [key for key in keys if not oracle.embeddings[key].late]
        wanted = [f"{i}/{side}/{oracle.version}" for i, side in in_time]
        late = {f"{i}/{side}/{oracle.version}" for i, side in set(keys) - set(in_time)}
        assert [each for each in came if each not in late] == wanted, f"embeddings of {node!r} came in another order"


def _check_alerts(deployment: Deployment, oracle: Oracle, report: Report) -> None:
    found = deployment.outputs.alerts
    expected = {f"{key[0]}/{key[1]}/{oracle.version}": each for key, each in oracle.alerts.items()}
    assert found.keys() == expected.keys()
    for name, alert in expected.items():
        came = found[name]
        assert came["node"] == split_node_key(alert.node)[1], name
        assert (came["head"], came["timestamp"]) == (alert.head, alert.time), name
        assert abs(came["probability"] - alert.probability) <= TOLERANCE, name
        assert abs(came["threshold"] - alert.threshold) <= 1e-7, name
        because = {(each["interaction"], each["peer"], each["time"]): each["weight"] for each in came["because"]}
        wanted = {(b.interaction.decode(), split_node_key(b.peer)[1], b.time): b.weight for b in alert.because}
        # Equal weights may change places at the cut, so only as many as both name must agree.
        assert len(because) == len(wanted), name
        assert _distance(np.sort([*because.values()]), np.sort([*wanted.values()])) <= TOLERANCE, name
        for past in because.keys() & wanted.keys():
            assert abs(because[past] - wanted[past]) <= TOLERANCE, name
    report.alerts = len(expected)


def _check_state(deployment: Deployment, oracle: Oracle, report: Report) -> None:
    partitions = deployment.topology.kafka.partitions
    changelog, ends = read_changelog(deployment)
    for partition in range(partitions):
        _check_disks(deployment, partition, changelog.get(partition, {}), ends.get(partition, 0))
    engine = engine_on(deployment, deployment.model, oracle.version, changelog)
    assert engine.pending() == 0, "rows wait although all embeddings have left"
    for node, wanted in oracle.neighbourhoods().items():
        found = kept_rows(engine, zlib.crc32(node) % partitions, node)
        assert_neighbourhood(node, found, wanted, report)
        report.nodes += 1
        report.rows += len(wanted.time)


def engine_on(deployment: Deployment, model: Model, version: int, changelog: dict[int, dict[bytes, bytes]]) -> Engine:
    """An engine with the state that the workers have left."""
    engine = Engine(
        model,
        version,
        id_bytes=deployment.topology.id_bytes,
        cache_bytes=1 << 28,
        alerts=AlertPolicy((1.0,) * len(HEADS), (0.0,) * len(HEADS)),
        max_wait_s=None,
    )
    for partition in range(deployment.topology.kafka.partitions):
        store = MemoryStore()
        store.write([(key, value) for key, value in changelog.get(partition, {}).items() if key != RESERVED_KEY])
        engine.open(partition, store)
    return engine


def _check_disks(deployment: Deployment, partition: int, entries: dict[bytes, bytes], end: int) -> None:
    """The worker that had the partition last has on its disk what the changelog says, and says so itself."""
    disks = [read_database(path) for path in deployment.folder.glob(f"data-*/**/*-{partition}.db")]
    complete = [state for state, offset in disks if offset == end - 1]
    assert complete or not end, f"partition {partition}: no disk is at offset {end - 1} of the changelog"
    for on_disk in complete:
        assert on_disk == entries, f"partition {partition}: the disk differs from the changelog"


def assert_neighbourhood(node: bytes, found: KeptRows, wanted: KeptRows, report: Report) -> None:
    """Ids, peers, times and features byte for byte, peer embeddings to the tolerance."""
    for each in fields(KeptRows):
        one, other = getattr(found, each.name), getattr(wanted, each.name)
        where = f"{node!r}: {each.name}"
        if each.name == "peer_embeddings":
            for layer, (vectors, others) in enumerate(zip(one, other, strict=True)):
                assert vectors.shape == others.shape, where
                difference = _distance(vectors, others)
                assert difference <= TOLERANCE, f"{where} of layer {layer} are off by {difference:g}"
                report.peer_embedding_difference = max(report.peer_embedding_difference, difference)
        elif isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes(), f"{where}: {one} instead of {other}"
        else:
            assert one == other, where


def read_changelog(deployment: Deployment) -> tuple[dict[int, dict[bytes, bytes]], dict[int, int]]:
    """The newest value of each key, which is what a worker with an empty disk recovers, and the end; by partition."""
    state: dict[int, dict[bytes, bytes]] = {}
    ends: dict[int, int] = {}
    for partition, records in records_of(deployment.servers, deployment.topology.changelog).items():
        entries = state.setdefault(partition, {})
        for record in records:
            ends[partition] = record.offset + 1
            if record.value is None:
                entries.pop(record.key, None)
            else:
                entries[record.key] = record.value
    return state, ends


def read_database(path: Path) -> tuple[dict[bytes, bytes], int]:
    """All entries of a RocksDB that no process has open, and the changelog offset that Faust keeps there (or -1)."""
    database = Rdict(str(path), options=Options(raw_mode=True), access_type=AccessType.read_only())
    try:
        entries = {bytes(key): bytes(value) for key, value in database.items()}
    finally:
        database.close()
    return entries, int(entries.pop(_FAUST_OFFSET, b"-1"))


def _distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    assert one.shape == other.shape
    return float(np.abs(one - other).max()) if one.size else 0.0
