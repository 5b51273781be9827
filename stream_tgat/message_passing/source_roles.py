"""Which topics feed a deployment, and what each of them holds."""

from typing import NamedTuple

from stream_tgat.topology import Topology
from stream_tgat.wire.packets import MOST_PARTITIONS, Source, SourceTopic


class SourceRole(NamedTuple):
    """What a topic that feeds a deployment holds, and its number among those that hold the same."""

    topic: SourceTopic
    number: int

    def source(self, partition: int) -> Source:
        """One partition of the topic."""
        return Source(self.topic, self.number * MOST_PARTITIONS + partition)


def source_topics(topology: Topology) -> dict[str, SourceRole]:
    """The topics that feed a deployment, and what they hold: `nodes` is one only where nodes have features."""
    names = {SourceTopic.INTERACTIONS: topology.input_topics("interactions")}
    if topology.graph.node_features:
        names[SourceTopic.NODES] = topology.input_topics("nodes")
    return {name: SourceRole(topic, number) for topic, each in names.items() for number, name in enumerate(each)}
