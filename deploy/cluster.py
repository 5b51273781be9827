"""Three Kafka brokers on loopback: what replication, and the loss of a broker, are tried on.

    with Cluster(Path("runs/cluster")) as cluster:
        print(cluster.bootstrap_servers)
        cluster.brokers[0].kill()

Each is a broker of `broker.py`, controller and broker at once; a cluster of three survives the loss of one.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from broker import Broker, Place, free_port, new_id

SETTINGS: dict[str, str | int] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    # A dead broker's partitions get another leader after that long; a busy laptop must not lose its brokers by it.
    "broker.session.timeout.ms": 6000,
    "replica.lag.time.max.ms": 6000,
    "controlled.shutdown.enable": "true",
}


class Cluster:
    """Brokers and their data folders; a context manager that leaves no process behind.

    data: a folder, in which each broker gets its own   size: how many
    """

    def __init__(self, data: Path, size: int = 3) -> None:
        cluster_id = new_id()
        voters = {node: free_port() for node in range(1, size + 1)}
        self.brokers = [
            Broker(data / f"broker-{node}", free_port(), SETTINGS, place=Place(node, cluster_id, voters))
            for node in voters
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for the clients, `host:port,…`."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, timeout_s: float = 90.0) -> None:
        """Start those that do not run, and wait until all serve requests."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait(timeout_s)

    def stop(self) -> None:
        """End all of them by force: without each other they have nobody to hand their partitions to. The data stay."""
        for broker in self.brokers:
            broker.kill()
