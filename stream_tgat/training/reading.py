"""The log out of Kafka, between two offset vectors: the manifest, which goes into the release."""

from collections.abc import Mapping

from stream_tgat.topology import Topology
from stream_tgat.training.kafka_log import Range, read_topic, topic_range
from stream_tgat.training.log import LogBuilder, TrainingLog

Manifest = dict[str, Range]
"""{topic with its prefix: {partition: (first offset, end offset)}}."""


def present_manifest(topology: Topology) -> Manifest:
    """All that `interactions`, `nodes` and `labels` hold now.

    `interactions` last: a label can only judge an interaction that is there already.
    """
    names = topology.topics
    return {topic: topic_range(topology, topic) for topic in (names.labels, names.nodes, names.interactions)}


def read_log(topology: Topology, manifest: Mapping[str, Range] | None = None) -> tuple[TrainingLog, Manifest]:
    """The log in a manifest (by default all there is now), and that manifest."""
    part = present_manifest(topology) if manifest is None else dict(manifest)
    builder = LogBuilder(topology)
    names = topology.topics
    for record in read_topic(topology, names.nodes, part[names.nodes]):
        builder.node(record.value, record.headers)
    for record in read_topic(topology, names.interactions, part[names.interactions]):
        builder.interaction(record.value, record.headers, record.partition, record.offset)
    for record in read_topic(topology, names.labels, part[names.labels]):
        builder.label(record.value, record.headers)
    return builder.build(), part
