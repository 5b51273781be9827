"""The log out of Kafka, between two offset vectors: the manifest, which goes into the release."""

from collections.abc import Mapping
from pathlib import Path

import orjson

from stream_tgat.errors import DataError
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


def kept_manifest(file: Path) -> Manifest | None:
    """The manifest that `keep_manifest` wrote; None where there is none yet."""
    try:
        content = orjson.loads(file.read_bytes())
        return {
            topic: {int(partition): (int(first), int(end)) for partition, (first, end) in parts.items()}
            for topic, parts in content.items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError) as problem:
        raise DataError(f"{file} is not a readable manifest: {problem}; delete it to start over") from problem


def keep_manifest(file: Path, manifest: Manifest) -> None:
    """Write down which part of the log a training reads, so that it reads the same when it goes on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(orjson.dumps(manifest, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2))
    partial.replace(file)
