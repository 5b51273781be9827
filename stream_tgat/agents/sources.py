"""Which topics and partitions feed a deployment, and whether they are still those that its state knows."""

from collections.abc import Iterable

from stream_tgat.agents.cluster import Cluster
from stream_tgat.errors import LostDataError
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import Source, SourceTopic


def source_topics(topology: Topology) -> dict[SourceTopic, str]:
    """The topics that feed a deployment, by what they hold: `nodes` is one only where nodes have features."""
    topics = {SourceTopic.INTERACTIONS: topology.topics.interactions}
    if topology.graph.node_features:
        topics[SourceTopic.NODES] = topology.topics.nodes
    return topics


class Sources:
    """All sources of a deployment.

    expected: as of the last look; none before the first, and nothing may be computed until then
    """

    def __init__(self, topology: Topology, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = source_topics(topology)
        self.expected: tuple[Source, ...] = ()

    async def look(self, received: Iterable[tuple[Source, int]]) -> None:
        """Ask the brokers, and stop if a source was made anew: its offsets would mean other events.

        received: sources and the offsets below which all of their records are in some state
        Raises LostDataError; KafkaError if the brokers do not answer, and then what was known stays.
        """
        # Noted before the brokers are asked: what is received meanwhile may lie beyond the ends they name.
        received = list(received)
        expected: list[Source] = []
        ends: dict[Source, int] = {}
        for topic, name in self._topics.items():
            partitions = range(await self._cluster.partitions(name))
            expected += [Source(topic, partition) for partition in partitions]
            ends |= {Source(topic, p): end for p, end in (await self._cluster.ends(name, partitions)).items()}
        for source, end in received:
            if ends.get(source, 0) < end:
                raise LostDataError(
                    f"{self._topics.get(source.topic, source.topic.name)}/{source.partition} ends at offset "
                    f"{ends.get(source, 0)}, but everything below {end} has been received: the topic was "
                    "made anew or cut. Restore it, or use another kafka.topic_prefix and replay the log."
                )
        self.expected = tuple(expected)
