"""A worker is behind by what is furthest behind: a partition that it reads, or what it computes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from faust.types import TP

from stream_tgat.agents.metrics import Metrics
from stream_tgat.housekeeping.observing import Lags
from stream_tgat.transport.client import End, Lag
from stream_tgat.transport.consumer import BulkConsumer

A, B, CHANGELOG = TP("interactions", 0), TP("propagation", 1), TP("changelog", 1)


class App:
    """Knows how far it has handed partitions on; `place` is further."""

    def __init__(self, lags: dict[TP, Lag | None]) -> None:
        self.recovered = frozenset(lags)
        self.tables = SimpleNamespace(changelog_topics={CHANGELOG.topic})
        self._lags = lags

    def lag(self, tp: TP, place: tuple[int, float | None] | None) -> Lag | None:
        return Lag(place[0], place[1] or 0.0) if place is not None else self._lags[tp]


def lags(app: App, metrics: Metrics, places: dict[TP, tuple[int, float | None]] | None = None) -> Lags:
    return Lags(app, SimpleNamespace(places=lambda: places or {}), metrics)


def test_what_is_furthest_behind_is_named() -> None:
    metrics = Metrics()
    app = App({A: Lag(5, 2.0), B: Lag(9_000, 1.0), CHANGELOG: Lag(10**6, 1e6)})
    assert lags(app, metrics).worst() == ("interactions/0", Lag(5, 2.0))
    # What was handed on to ingest and not sent on by it is not processed.
    assert lags(app, metrics, {A: (70, 44.0)}).worst() == ("interactions/0", Lag(70, 44.0))
    assert lags(App({A: None}), metrics).worst() is None
    assert lags(App({}), metrics).worst() is None


def test_embeddings_of_old_records_are_behind_only_while_rows_are_due() -> None:
    metrics = Metrics()
    metrics.embedded(np.array([0.2, np.nan, 90.0]))
    worker = lags(App({A: Lag(0, 0.0)}), metrics)
    # With sparse events an embedding waits for the next one, however long that takes: nothing is to be done then.
    assert worker.worst() == ("interactions/0", Lag(0, 0.0))
    metrics.due = 12
    assert worker.worst() == ("computing", Lag(12, 90.0))
    metrics.embedded(np.array([0.1]))
    assert worker.worst() == ("computing", Lag(12, 0.1))
    metrics.embedded(np.empty(0))
    assert worker.worst() == ("computing", Lag(12, 0.1)), "a cycle without embeddings says nothing"


def test_worker_is_ready_within_the_bound_and_says_how_far_it_is_behind() -> None:
    app = App({A: Lag(50_000, 12.0)})
    worker = lags(app, Metrics())
    assert worker.why_behind(10.0) == (
        "catching up: 12 s behind at interactions/0, with 50,000 to go (serving.ready_within_s = 10)"
    )
    app._lags[A] = Lag(50_000, 9.0)
    assert worker.why_behind(10.0) is None
    app._lags[A] = None
    assert worker.why_behind(10.0) == "catching up: interactions/0 has not been read yet"


def test_age_of_the_last_record_counts_while_more_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = BulkConsumer.__new__(BulkConsumer)
    end: End | None = End(100, 90, 0.0)
    vars(consumer).update(_thread=SimpleNamespace(end=lambda tp: end), _written={A: 950.0})
    vars(consumer).update(positions=SimpleNamespace(next=lambda tp: 60))
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    # What an open transaction holds back cannot be read.
    assert consumer.lag(A) == Lag(30, 50.0)
    assert consumer.lag(A, (40, 900.0)) == Lag(50, 100.0)
    assert consumer.lag(A, (90, 900.0)) == Lag(0, 0.0)
    assert consumer.lag(A, (40, None)) is None, "before the first record"
    assert consumer.lag(A, (90, None)) == Lag(0, 0.0), "there is none"
    end = None
    assert consumer.lag(A) is None
