"""The topic `propagation` as a whole: how far its readers are, and the deletion of what they are done with."""

from typing import Protocol

from stream_tgat.agents.cluster import Cluster
from stream_tgat.agents.throttle import Throttle
from stream_tgat.topology import Topology


class _Committed(Protocol):
    """What is asked of the worker's partitions: see `Propagate`."""

    @property
    def committed_offsets(self) -> dict[int, int]: ...


class PropagationTopic:
    """Looks after `propagation`. Both of its methods raise KafkaError where the brokers do not answer."""

    def __init__(self, topology: Topology, cluster: Cluster, partitions: _Committed, throttle: Throttle) -> None:
        self._name = topology.topics.propagation
        self._count = topology.kafka.partitions
        self._group = topology.app_id
        self._cluster = cluster
        self._partitions = partitions
        self._throttle = throttle

    async def look(self) -> None:
        """Tell the throttle how far the partitions of other workers have been read."""
        mine = self._partitions.committed_offsets
        if len(mine) == self._count:
            return
        committed = await self._cluster.committed(self._group, self._name)
        for partition in range(self._count):
            if partition not in mine:
                self._throttle.read(partition, committed.get(partition, 0))

    async def delete_done(self) -> None:
        """Delete what the partitions of this worker have in their committed state; nobody will read it again."""
        committed = self._partitions.committed_offsets.items()
        await self._cluster.delete_below(
            self._name, {number: offset + 1 for number, offset in committed if offset >= 0}
        )
