"""What a worker counts while it works; what each is called and means stands in `stream_tgat.metrics.catalogue`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.message_passing.refused import Refused
from stream_tgat.metrics import Histogram, Metric, Sample, catalogue
from stream_tgat.wire import QualityReport, kind_of_reason
from stream_tgat.wire.packets import Source, SourceTopic

#: Kinds of reasons that are counted apart; fields and bounds of a topology make some dozens at most.
REASONS: Final = 50
OTHER: Final = "other"


def _count(metric: Metric, default: int = 0) -> Any:
    return field(default=default, metadata={"metric": metric})


@dataclass(slots=True)
class Metrics:
    """Counters since the start of this worker, and some values of now."""

    interactions: int = _count(catalogue.INTERACTIONS)
    nodes: int = _count(catalogue.NODES)
    passed_over: int = _count(catalogue.PASSED_OVER)
    unknown_labels: int = _count(catalogue.UNKNOWN_LABELS)
    half_edges: int = _count(catalogue.HALF_EDGES)
    messages: int = _count(catalogue.MESSAGES)
    embeddings: int = _count(catalogue.EMBEDDINGS)
    alerts: int = _count(catalogue.ALERTS)
    forced: int = _count(catalogue.FORCED)
    stale_rows: int = _count(catalogue.STALE_ROWS)
    duplicates: int = _count(catalogue.DUPLICATES)
    repeats: int = _count(catalogue.REPEATS)
    differing_repeats: int = _count(catalogue.DIFFERING_REPEATS)
    commits: int = _count(catalogue.COMMITS)
    fenced: int = _count(catalogue.FENCED)
    switches: int = _count(catalogue.SWITCHES)
    refused_releases: int = _count(catalogue.REFUSED_RELEASES)
    model: int = _count(catalogue.MODEL, -1)
    reencoded: int = _count(catalogue.REENCODED, -1)
    inexact_peer_embeddings: int = _count(catalogue.INEXACT_PEER_EMBEDDINGS)
    hanging_transactions: int = _count(catalogue.HANGING_TRANSACTIONS)
    window_stalls: int = _count(catalogue.STALLS)
    pending: int = _count(catalogue.PENDING_ROWS)
    due: int = _count(catalogue.DUE_ROWS)

    event_to_embedding: Histogram = field(
        default_factory=partial(Histogram, catalogue.EVENT_TO_EMBEDDING.bounds),
        metadata={"metric": catalogue.EVENT_TO_EMBEDDING},
    )
    cycle_s: Histogram = field(
        default_factory=partial(Histogram, catalogue.CYCLE.bounds),
        metadata={"metric": catalogue.CYCLE},
    )
    commit_s: Histogram = field(
        default_factory=partial(Histogram, catalogue.COMMIT.bounds),
        metadata={"metric": catalogue.COMMIT},
    )
    cycle_embeddings: Histogram = field(
        default_factory=partial(Histogram, catalogue.CYCLE_EMBEDDINGS.bounds),
        metadata={"metric": catalogue.CYCLE_EMBEDDINGS},
    )
    batch_records: Histogram = field(
        default_factory=partial(Histogram, catalogue.BATCH_RECORDS.bounds),
        metadata={"metric": catalogue.BATCH_RECORDS},
    )

    # Of the embeddings sent last: the age of the oldest record behind one of them, where that is known
    oldest_s: float = 0.0
    # Name of the release that serves
    release: str = ""
    # Records that could not be used, by full topic name and kind of reason
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Half-edges that arrived behind, by partition of the interactions' topics, as `Source` numbers them
    behind_by_source: Counter[int] = field(default_factory=Counter)
    # The sources that rows wait for, now: seconds since when their watermark stands still
    held_back_s: dict[Source, float] = field(default_factory=dict)
    # Seconds for which ingest was held on purpose
    throttled_s: dict[str, float] = field(default_factory=lambda: {"window": 0.0, "pending": 0.0})

    @property
    def embedding_lag_s(self) -> float:
        """How far computing is behind."""
        return self.oldest_s if self.due else 0.0

    @property
    def arrived_behind(self) -> int:
        """Half-edges that came after a later one of their node had been computed."""
        return self.behind_by_source.total()

    @property
    def dead_letters(self) -> int:
        """Records that could not be used."""
        return self.refused.total()

    def embedded(self, ages: NDArray[np.float64]) -> None:
        """Take note of embeddings that were sent: seconds f8[B] since their records were written, NaN where unknown."""
        self.event_to_embedding.observe_all(ages)
        if len(ages):
            # A record of an unknown time came before all that are remembered.
            self.oldest_s = max(float(np.nanmax(ages, initial=0.0)), 0.0)

    def refuse(self, refused: Sequence[Refused]) -> None:
        """Count records that could not be used, each by the kind of its reason."""
        for record in refused:
            key = record.topic, kind_of_reason(record.reason)
            if key not in self.refused and len(self.refused) >= REASONS:
                key = record.topic, OTHER
            self.refused[key] += 1

    def samples(self) -> Iterator[Sample]:
        """All that has no more to it than a number, and the histograms."""
        for each in fields(self):
            if "metric" in each.metadata:
                yield Sample(each.metadata["metric"], getattr(self, each.name))
        yield Sample(catalogue.EMBEDDING_LAG, self.embedding_lag_s)
        for reason, seconds in self.throttled_s.items():
            yield Sample(catalogue.THROTTLED, seconds, (reason,))
        for partition, count in sorted(self.behind_by_source.items()):
            source = Source(SourceTopic.INTERACTIONS, partition)
            yield Sample(catalogue.ARRIVED_BEHIND, count, (source.kind, str(source.partition_of_topic)))
        if self.release:
            yield Sample(catalogue.MODEL_INFO, 1, (self.release, str(self.model)))


def quality_samples(report: QualityReport) -> Iterator[Sample]:
    """Live quality of the model that serves; what is not known has no sample."""
    for head in report.heads:
        figures = None if report.model is None else head.by_model.get(report.model)
        if figures is not None:
            for metric, value in (
                (catalogue.AUC, figures.auc),
                (catalogue.AVERAGE_PRECISION, figures.average_precision),
                (catalogue.CALIBRATION_ERROR, figures.calibration_error),
                (catalogue.ALERT_PRECISION, figures.alert_precision),
                (catalogue.ANSWERS, figures.count),
            ):
                if value is not None:
                    yield Sample(metric, value, (head.head,))
        yield Sample(catalogue.IMMATURE, head.immature, (head.head,))
    for links in report.links:
        if links.model == report.model and links.average_precision is not None:
            yield Sample(catalogue.LINK_PRECISION, links.average_precision)
    yield Sample(catalogue.RENEWAL_STATE, 1, (report.renewal,))
    yield Sample(catalogue.DRIFTING, len(report.drift))
    yield Sample(catalogue.QUALITY_CREATED, report.created)
