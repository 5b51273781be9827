"""Live quality: follows the topics and says how good the serving model is on what became known lately.

    with Monitor(topology, ServedReleases(topology)) as monitor:
        monitor.look(5.0)           # take what comes for five seconds; again and again
        report = monitor.report()   # a QualityReport, for topic `quality`

The first looks read a bounded place back in the log: as many predictions as `monitoring.predictions`. Memory is bounded
always. What takes torch, this package does not know: it asks `training.served.ServedReleases`.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, Self

import numpy as np
from pydantic import ValidationError

from stream_tgat.brokers import written_at
from stream_tgat.errors import WireError
from stream_tgat.monitoring.drift import Drift, watched_columns
from stream_tgat.monitoring.figures import head_quality
from stream_tgat.monitoring.follower import Follower
from stream_tgat.monitoring.link_sample import LinkSample
from stream_tgat.monitoring.releases import ReleasesByVersion, UnknownReleases
from stream_tgat.monitoring.validation import ProgressiveValidation
from stream_tgat.topology import Topology
from stream_tgat.training.unmatched import no_head
from stream_tgat.wire import (
    DecodedAlert,
    DecodedEmbedding,
    DecodedInteraction,
    DecodedLabel,
    DriftNotice,
    InteractionReader,
    LabelReader,
    ModelRecord,
    OutputDecoder,
    QualityReport,
    Several,
    UnknownLabel,
)

_ALL: Final = 1 << 62


class LiveQuality:
    """All that a monitor makes of records, without Kafka: records in, a report out."""

    def __init__(self, topology: Topology, releases: ReleasesByVersion) -> None:
        self._topology, self._releases = topology, releases
        self._outputs = OutputDecoder(topology)
        self._labels = LabelReader(topology)
        self._interactions = InteractionReader(topology)
        self._validation = ProgressiveValidation(topology)
        self._links = LinkSample(topology.monitoring.links_every, topology.monitoring.window, releases)
        self._scores = Drift([f"score:{name}" for name in topology.head_names])
        self._columns, names = watched_columns(topology.encoder)
        self._features = Drift([f"feature:{name}" for name in names])
        self._promoted: dict[int, tuple[ModelRecord, float]] = {}
        self._model = -1
        self._until: float | None = None
        topics = topology.topics
        self._takers: dict[str, Callable[[list[Any]], None]] = {
            topics.models: self._take_models,
            topics.embeddings: self._take_embeddings,
            topics.alerts: self._take_alerts,
        }
        self._takers |= dict.fromkeys(topology.input_topics("labels"), self._take_labels)
        self._takers |= dict.fromkeys(topology.input_topics("interactions"), self._take_interactions)

    def take(self, records: Iterable[Any]) -> None:
        """Records of a Kafka client, from any of the topics; what cannot be read is passed over, as workers tell it."""
        by_topic: dict[str, list[Any]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, mine in by_topic.items():
            self._takers[topic](mine)

    def report(self, behind: int = 0) -> QualityReport:
        """What is known now. behind: records that are there and were not taken yet"""
        model = self._serving()
        record, promoted = (None, None) if model is None else self._promoted[model]
        heads = tuple(
            head_quality(head, answers) for head, answers in self._validation.answers(self._releases.learnt_until)
        )
        links = self._links.quality()
        versions = {version for head in heads for version in head.by_model} | {each.model for each in links}
        return QualityReport(
            created=time.time(),
            release=None if record is None else record.release,
            model=model,
            serving_since=promoted,
            releases={
                version: self._promoted[version][0].release
                for version in sorted({*versions, *([] if model is None else [model])})
                if version in self._promoted
            },
            until=self._until,
            behind=behind,
            predictions=self._validation.count,
            user_share=self._validation.memory.user_share,
            window=self._topology.monitoring.window,
            heads=heads,
            unknown_labels=tuple(
                UnknownLabel(label=name, count=count, why=no_head(name, self._validation.learnt))
                for name, count in sorted(self._validation.unknown.items())
            ),
            links=links,
            drift=tuple(
                DriftNotice(**notice._asdict())
                for drift in (self._scores, self._features)
                for notice in drift.notices()
            ),
            watched=len(self._scores.names) + len(self._features.names),
        )

    def _serving(self) -> int | None:
        """The newest promotion that workers do not refuse; one that has left embeddings serves for certain."""
        for version in sorted(self._promoted, reverse=True):
            if version <= self._model or not self._releases.is_refused(version):
                return version
        return None

    def _take_models(self, records: list[Any]) -> None:
        for record in records:
            with suppress(ValidationError):  # a stray record is no promotion
                promoted = ModelRecord.model_validate_json(record.value or b"")
                if promoted.action == "promote":
                    self._promoted[record.offset] = promoted, written_at(record)

    def _take_embeddings(self, records: list[Any]) -> None:
        found: list[DecodedEmbedding] = []
        for record in records:
            with suppress(WireError):
                embedding = self._outputs.embedding(record.value, record.headers)
                if self._links.takes(embedding):
                    self._links.add(embedding, self._outputs.vector(record.value, record.headers))
                found.append(embedding)
        if not found:
            return
        self._until = max(self._until or 0.0, *(each.timestamp for each in found))
        self._validation.predictions(found)
        newest = max(each.model for each in found)
        if newest > self._model:
            # The reference is how things were when the model began to serve.
            self._model = newest
            self._scores.restart()
            self._features.restart()
        scores = [each.predictions for each in found if each.predictions and each.model == self._model]
        if scores:
            self._scores.add(self._until, np.nan_to_num(np.array(scores)))

    def _take_labels(self, records: list[Any]) -> None:
        decoded = [self._labels.read(each, written_at(each)) for each in records]
        self._validation.labels(each for each in decoded if isinstance(each, DecodedLabel))

    def _take_alerts(self, records: list[Any]) -> None:
        found: list[DecodedAlert] = []
        for record in records:
            with suppress(WireError):
                found.append(self._outputs.alert(record.value, record.headers))
        self._validation.alerts(found)

    def _take_interactions(self, records: list[Any]) -> None:
        found: list[DecodedInteraction] = []
        for record in records:
            decoded = self._interactions.read(record, written_at(record))
            if isinstance(decoded, DecodedInteraction):
                found.append(decoded)
            elif isinstance(decoded, Several):
                found += decoded.interactions
        vectors, errors = self._topology.encoder.encode([each.fields for each in found])
        good = [row for row, error in enumerate(errors) if error is None]
        if good:
            newest = max(found[row].timestamp for row in good)
            self._features.add(newest, vectors[np.ix_(good, self._columns)])


class Monitor:
    """`LiveQuality` of a deployment's topics, live."""

    def __init__(self, topology: Topology, releases: ReleasesByVersion | None = None) -> None:
        """releases: those that have served; without them links are not measured, and what was learnt counts too.

        Raises TopicError, which says what is missing.
        """
        self._figures = LiveQuality(topology, releases or UnknownReleases())
        topics, most = topology.topics, topology.monitoring.predictions
        heads = len(topology.heads)
        back = {topics.models: _ALL, topics.embeddings: 2 * most}
        if heads:
            back |= dict.fromkeys((*topology.input_topics("labels"), topics.alerts), most * heads)
        if topology.features:
            back |= dict.fromkeys(topology.input_topics("interactions"), most)
        self._follower = Follower(topology, back)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self, budget_s: float) -> None:
        """Take what comes for `budget_s` seconds. Costs little where little comes."""
        self._take(self._follower.new(budget_s))

    def catch_up(self, progress: Callable[[int, int], None] = lambda *_: None) -> None:
        """Take all there is now, however long it takes; progress is told (records done, records in all)."""
        self._take(self._follower.all_there_is(progress))

    def report(self) -> QualityReport:
        """What is known now."""
        return self._figures.report(self._follower.behind())

    def close(self) -> None:
        """Disconnect."""
        self._follower.close()

    def _take(self, batches: Iterator[list[Any]]) -> None:
        for records in batches:
            self._figures.take(records)
