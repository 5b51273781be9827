"""What a deployment takes at a rate: workers, brokers, disk and network, by coefficients that were measured.

All coefficients come from `capacity.json`, which `make bench BENCH=capacity SAVE=yes` writes. What is known from the
layouts of records is computed. docs/capacity.md has the equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from pydantic import TypeAdapter

_FILE: Final = "capacity.json"


@dataclass(frozen=True)
class Shape:
    """What of a deployment its costs depend on.

    edge: E   hidden: D   time: T   neighbours: K   candidates: C   layers: L
    interaction_bytes: of a record that is read   embedding_bytes: of one that is written, key and headers included
    half_edge_bytes, peer_embedding_bytes: of an entry on `propagation`
    """

    edge: int
    hidden: int
    time: int
    neighbours: int
    candidates: int
    layers: int
    interaction_bytes: float
    embedding_bytes: float
    half_edge_bytes: int
    peer_embedding_bytes: int

    @property
    def engine_terms(self) -> tuple[float, ...]:
        """What the engine's time is a sum of: rows, layers, and in thousands the products of each layer."""
        layers, width = self.layers, self.edge + self.hidden + self.time
        return 1.0, layers, layers * self.hidden**2 / 1e3, layers * self.neighbours * width / 1e3

    @property
    def state_terms(self) -> tuple[float, ...]:
        """What bytes of state are a sum of: a row, its features, and the peer embeddings in it and their numbers."""
        return 1.0, self.edge, self.layers - 1, (self.layers - 1) * self.hidden

    @property
    def propagation_bytes(self) -> int:
        """Bytes on `propagation` for an interaction: both its ends, and their peer embeddings of each layer but one."""
        return 2 * (self.half_edge_bytes + (self.layers - 1) * self.peer_embedding_bytes)

    @property
    def wire_kb(self) -> float:
        """Kilobytes that a worker reads and writes of an interaction in users' topics."""
        return (self.interaction_bytes + 2 * self.embedding_bytes) / 1e3


@dataclass(frozen=True)
class Coefficients:
    """What was measured, on one machine at one time.

    measured: when and on what   beside_cores: what others had of the machine's cores meanwhile
    engine_us: of each of `Shape.engine_terms`   engine_error: the fit's largest relative error
    path_us, path_us_per_kb: of a worker beside its engine, per interaction and kilobyte
    rounds_per_s: of a worker   partition_us: of a partition that has come up in a round, whatever there was for it
    packet_us: of a packet that is sent and received; each round of a worker has one for every partition
    base_cores: of a worker, before the first interaction
    broker_us, broker_partition_us, broker_packet_us, broker_base_cores: the same of the brokers, with one replica
    changelog_bytes, row_bytes: of each of `Shape.state_terms`, per interaction written and per row kept
    log_factor: bytes on the brokers' disks for each of records   disk_factor: on a worker's disk for each of state
    """

    measured: str
    machine: str
    beside_cores: float
    engine_us: tuple[float, ...]
    engine_error: float
    path_us: float
    path_us_per_kb: float
    rounds_per_s: float
    partition_us: float
    packet_us: float
    base_cores: float
    broker_us: float
    broker_partition_us: float
    broker_packet_us: float
    broker_base_cores: float
    changelog_bytes: tuple[float, ...]
    row_bytes: tuple[float, ...]
    log_factor: float
    disk_factor: float

    @classmethod
    def measured_last(cls) -> Coefficients:
        """Those that the last benchmark has written."""
        text = files("stream_tgat").joinpath(_FILE).read_bytes()
        return TypeAdapter(cls).validate_json(text)

    def worker_us(self, shape: Shape) -> float:
        """CPU time of a worker for an interaction, in microseconds, without what its rounds cost."""
        return _sum(self.engine_us, shape.engine_terms) + self.path_us + self.path_us_per_kb * shape.wire_kb

    def packets_per_s(self, workers: int, partitions: int) -> float:
        """Of all workers together."""
        return self.rounds_per_s * workers * partitions

    def worker_cores(self, shape: Shape, rate: float, workers: int, partitions: int) -> float:
        """What all workers use together. rate: interactions a second"""
        each_us = rate * self.worker_us(shape) + self._rounds_us(workers, partitions, self.partition_us, self.packet_us)
        return 1e-6 * each_us + workers * self.base_cores

    def broker_cores(self, rate: float, workers: int, partitions: int, replicas: int) -> float:
        """What all brokers use together; copies are written as often, and polled by nobody."""
        of_partition, of_packet = self.broker_partition_us, self.broker_packet_us
        each_us = rate * self.broker_us + self._rounds_us(workers, partitions, of_partition, of_packet)
        return 1e-6 * each_us * replicas + workers * self.broker_base_cores

    def _rounds_us(self, workers: int, partitions: int, of_partition: float, of_packet: float) -> float:
        """Microseconds a second of what recurs whatever comes: partitions, and a packet to each from each worker."""
        return self.rounds_per_s * partitions * (of_partition + workers * of_packet)


@dataclass(frozen=True)
class Load:
    """What is asked for.

    rate: interactions a second   nodes: users and items that have interacted   replicas: copies of each partition
    worker_cores: that a worker may use, of which it is to use `share` at most   broker_cores: of a broker
    """

    rate: float
    nodes: float
    replicas: int
    worker_cores: float = 1.5
    broker_cores: float = 4.0
    share: float = 0.6


@dataclass(frozen=True)
class Plan:
    """What it takes. Bytes a second are of all workers and brokers together, without copies where not said."""

    workers: int
    partitions: int
    brokers: int
    worker_us: float
    worker_cores: float
    broker_cores: float
    packets_per_s: float
    wire_bytes_per_s: float
    replicated_bytes_per_s: float
    state_bytes: float
    worker_disk_bytes: float
    log_bytes_per_day: float


def plan(shape: Shape, load: Load, of: Coefficients, per_worker: int = 1) -> Plan:
    """The fewest workers that keep below their share, and what follows. per_worker: partitions for each of them"""
    workers = 1
    # Each round of a worker sends a packet to all partitions, so packets grow with the square of the workers.
    while (used := of.worker_cores(shape, load.rate, workers, workers * per_worker)) > _most_cores(load, workers):
        more = math.ceil(used / _most_cores(load, 1))
        if workers > 100_000:
            raise ValueError("no number of workers is enough: their packets alone take more than they have")
        workers = max(workers + 1, min(more, 2 * workers))
    partitions = workers * per_worker
    changelog = _sum(of.changelog_bytes, shape.state_terms)
    written = shape.propagation_bytes + 2 * shape.embedding_bytes + changelog
    # Everything is written once and read once, but for the changelog, which is read when a worker recovers.
    wire = shape.interaction_bytes + written + shape.propagation_bytes
    broker_cores = of.broker_cores(load.rate, workers, partitions, load.replicas)
    rows = load.nodes * shape.candidates
    state = rows * _sum(of.row_bytes, shape.state_terms)
    return Plan(
        workers=workers,
        partitions=partitions,
        brokers=max(load.replicas, math.ceil(broker_cores / (load.share * load.broker_cores))),
        worker_us=of.worker_us(shape),
        worker_cores=used,
        broker_cores=broker_cores,
        packets_per_s=of.packets_per_s(workers, partitions),
        wire_bytes_per_s=load.rate * wire,
        replicated_bytes_per_s=load.rate * (shape.interaction_bytes + written) * (load.replicas - 1),
        state_bytes=state,
        worker_disk_bytes=state * of.disk_factor / workers,
        log_bytes_per_day=load.rate * (shape.interaction_bytes + 2 * shape.embedding_bytes) * of.log_factor * 86_400
        * load.replicas,
    )  # fmt: skip


def _most_cores(load: Load, workers: int) -> float:
    """What so many workers are to use."""
    return load.share * load.worker_cores * workers


def _sum(coefficients: tuple[float, ...], terms: tuple[float, ...]) -> float:
    return sum(one * other for one, other in zip(coefficients, terms, strict=True))
