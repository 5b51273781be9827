"""The log out of Kafka, between two offset vectors: the manifest, which goes into the release."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
import orjson

from stream_tgat.brokers import written_at
from stream_tgat.disk import replacing
from stream_tgat.errors import DataError, TopicError
from stream_tgat.topology import Role, Topology
from stream_tgat.training.card import ReleaseCard
from stream_tgat.training.kafka_log import Range, read_topic, still_there, topic_ids, topic_range
from stream_tgat.training.log import LogBuilder, TrainingLog
from stream_tgat.training.window import WHOLE_LOG, Window

_ROLES: Final[tuple[Role, ...]] = ("labels", "nodes", "interactions")

Manifest = dict[str, Range]
"""{topic with its prefix: {partition: (first offset, end offset)}}."""

ReadingProgress = Callable[[str, int, int], None]
"""Told (topic, offsets passed, offsets in all)."""


def present_manifest(topology: Topology) -> Manifest:
    """All that the topics of interactions, nodes and labels hold now.

    Interactions last: a label can only judge an interaction that is there already.
    """
    return {topic: topic_range(topology, topic) for role in _ROLES for topic in topology.input_topics(role)}


@dataclass(frozen=True)
class Wanted:
    """Which part of the log to read. manifest: offsets, None for all there is now   window: of what they hold

    topic_ids: of the topics that the offsets are of, as far as they are known
    """

    manifest: Manifest | None = None
    window: Window = WHOLE_LOG
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


ALL = Wanted()


@dataclass(frozen=True, eq=False)
class LogPart:
    """A part of the log as it was read; manifest and `since` together name its interactions and labels for ever.

    since: unix seconds of event time, older interactions were left out; None where none was
    missing: what was asked for and is no longer there, in words; empty if all is
    topic_ids: which topics they were, as far as the brokers tell
    """

    log: TrainingLog
    manifest: Manifest
    since: float | None
    missing: tuple[str, ...]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


def read_log(topology: Topology, manifest: Mapping[str, Range] | None = None) -> tuple[TrainingLog, Manifest]:
    """The log in a manifest (by default all there is now), and that manifest."""
    part = present_manifest(topology) if manifest is None else dict(manifest)
    return _read(topology, part, LogBuilder(topology), lambda *_: None), part


def read_part(topology: Topology, wanted: Wanted = ALL, progress: ReadingProgress = lambda *_: None) -> LogPart:
    """Read a part of the log; where it no longer reaches back so far, what is there.

    Of `nodes`, which is compacted, only the newest features of a node are there for ever: those of a node that changed
    since a manifest was written are not found again.
    Raises TopicError if the offsets that are wanted are of other topics of these names.
    """
    ids = topic_ids(topology, [topic for role in _ROLES for topic in topology.input_topics(role)])
    for topic, known in wanted.topic_ids.items():
        if ids.get(topic, known) != known:
            raise TopicError(
                f"The topic {topic!r} was deleted and created again since, so the same offsets hold other records, and "
                "what was learnt from cannot be read again. Train on the log as it is: without --log-of, in a new "
                "folder."
            )
    interactions, window = topology.input_topics("interactions"), wanted.window
    if wanted.manifest is None:
        part = present_manifest(topology)
        gone = {
            topic: sum(first for first, _ in part[topic].values())
            for topic in (*interactions, *topology.input_topics("labels"))
        }
    else:
        found = {topic: still_there(topology, topic, offsets) for topic, offsets in wanted.manifest.items()}
        part = {topic: left for topic, (left, _) in found.items()}
        gone = {topic: count for topic, (_, count) in found.items()}
    builder = LogBuilder(topology, window)
    log = _read(topology, part, builder, progress)
    if wanted.manifest is None and builder.left_out:
        gone = {}  # it reaches back further than the window
    if window.is_limited:
        for topic in interactions:
            first = builder.first_offsets(topic)
            part[topic] = {each: (first.get(each, end), end) for each, (_, end) in part[topic].items()}
    return LogPart(
        log,
        part,
        builder.begin if np.isfinite(builder.begin) else None,
        tuple(
            f"{count:,} records of {topic} have passed their retention; the log is used as far as it reaches back"
            for topic, count in gone.items()
            if count
        ),
        ids,
    )


def read_by(card: ReleaseCard) -> Wanted:
    """What a release was trained on; DataError where that was no log."""
    if not card.manifest:
        raise DataError("This release was not trained from the log, so there is no part of it to read again")
    manifest = {
        topic: {int(partition): offsets for partition, offsets in parts.items()}
        for topic, parts in card.manifest.items()
    }
    window = WHOLE_LOG if card.log_since is None else Window(since=card.log_since)
    return Wanted(manifest, window, dict(card.topic_ids))


def _read(topology: Topology, part: Mapping[str, Range], builder: LogBuilder, progress: ReadingProgress) -> TrainingLog:
    def records(role: Role) -> Iterator[Any]:
        for topic in topology.input_topics(role):
            yield from read_topic(topology, topic, part[topic], partial(progress, topic))

    for each in records("nodes"):
        builder.node(each.value, each.headers, key=each.key, topic=each.topic)
    for each in records("interactions"):
        place = each.partition, each.offset, written_at(each)
        builder.interaction(each.value, each.headers, *place, key=each.key, topic=each.topic)
    for each in records("labels"):
        builder.label(each.value, each.headers, written_at(each), key=each.key, topic=each.topic)
    return builder.build()


def kept_manifest(file: Path) -> tuple[Manifest, dict[str, UUID]] | None:
    """What `keep_manifest` wrote: the manifest and the topics' ids; None where there is none yet."""
    try:
        content = orjson.loads(file.read_bytes())
        manifest = {
            topic: {int(partition): (int(first), int(end)) for partition, (first, end) in parts.items()}
            for topic, parts in content["manifest"].items()
        }
        return manifest, {topic: UUID(each) for topic, each in content["topic_ids"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as problem:
        raise DataError(f"{file} is not a readable manifest: {problem!r}; delete it to start over") from problem


def keep_manifest(file: Path, manifest: Manifest, ids: Mapping[str, UUID]) -> None:
    """Write down which part of the log a training reads, so that it reads the same when it goes on."""
    content = {"manifest": manifest, "topic_ids": dict(ids)}
    with replacing(file) as partial:
        partial.write_bytes(orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2))
