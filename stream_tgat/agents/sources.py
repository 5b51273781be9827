"""Which partitions feed a deployment, and whether they are still those that its state knows."""

from collections.abc import Iterable

from stream_tgat.agents.checking import checked_topics
from stream_tgat.agents.cluster import Cluster
from stream_tgat.errors import LostDataError
from stream_tgat.message_passing.source_roles import source_topics
from stream_tgat.message_passing.state_identity import TopicIds, begin_again, made_anew, state_topics
from stream_tgat.topology import Topology
from stream_tgat.wire.packets import Source


class Sources:
    """All sources of a deployment.

    expected: as of the last look; none before the first, and nothing may be computed until then
    """

    def __init__(self, topology: Topology, cluster: Cluster, ids: TopicIds) -> None:
        """ids: of the topics as the worker found them when it started"""
        self._cluster = cluster
        self._of_state = state_topics(topology)
        self._changelog, self._way_on = topology.changelog, begin_again(topology)
        watched = (*self._of_state, self._changelog, *checked_topics(topology))
        self._ids = {name: ids[name] for name in watched if name in ids}
        self._topics = source_topics(topology)
        self.expected: tuple[Source, ...] = ()

    async def look(self, received: Iterable[tuple[Source, int]]) -> None:
        """Ask the brokers, and stop if a source was made anew: its offsets would mean other events.

        received: sources and the offsets below which all of their records are in some state
        Raises LostDataError; KafkaError if the brokers do not answer, and then what was known stays.
        """
        # Noted before the brokers are asked: what is received meanwhile may lie beyond the ends they name.
        received = list(received)
        found = await self._cluster.describe([*{*self._topics, *self._ids}])
        for name, known in self._ids.items():
            if found[name].id not in (None, known):
                raise self._made_anew(name)
        expected: list[Source] = []
        ends: dict[Source, int] = {}
        for name, role in self._topics.items():
            partitions = range(found[name].partitions)
            expected += map(role.source, partitions)
            ends |= {role.source(p): end for p, end in (await self._cluster.ends(name, partitions)).items()}
        for source, end in received:
            if ends.get(source, 0) < end:
                raise LostDataError(
                    f"{self._named(source)} ends at offset "
                    f"{ends.get(source, 0)}, but everything below {end} has been received: the topic was "
                    "made anew or cut. Restore it, or use another kafka.topic_prefix and replay the log."
                )
        self.expected = tuple(expected)

    def _named(self, source: Source) -> str:
        name = next((name for name, role in self._topics.items() if role == (source.topic, source.number)), None)
        return str(source) if name is None else f"{name}/{source.partition_of_topic}"

    def _made_anew(self, topic: str) -> LostDataError:
        if topic in self._of_state:
            return made_anew(topic, "that this worker has begun to read", self._way_on)
        if topic == self._changelog:
            return made_anew(topic, "that this worker has recovered its state from", self._way_on)
        return LostDataError(
            f"The topic {topic!r} was deleted and created again while it was read. Nothing else rests on its offsets: "
            "start the worker again, and it is read from its beginning."
        )
