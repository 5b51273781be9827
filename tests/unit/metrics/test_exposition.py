"""Prometheus reads the page, and the list is as its conventions want it."""

from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from stream_tgat.metrics import ALL, Histogram, Metric, Sample, catalogue
from stream_tgat.metrics.exposition import Exposition

#: What Prometheus' documentation counts as base units, and what has none.
UNITS = ("seconds", "bytes", "ratio")
SCALED = re.compile(r"_(ms|millis|milliseconds|us|minutes|hours|days|kb|mb|kib|mib|megabytes|percent)(_|$)")


def _page(*samples: Sample, accept: str = "") -> str:
    page, _ = Exposition(lambda: iter(samples)).page(accept)
    return page.decode()


def test_page_has_values_labels_and_the_process_in_both_formats() -> None:
    latency = Histogram((0.1, 1.0))
    latency.observe(0.5)
    samples = (
        Sample(catalogue.INTERACTIONS, 3),
        Sample(catalogue.DEAD_LETTERS, 2, ("labels", 'field "x" must\nbe a number')),
        Sample(catalogue.PENDING_ROWS, 7),
        Sample(catalogue.EVENT_TO_EMBEDDING, latency),
    )
    for read, accept in ((plain, ""), (openmetrics, "application/openmetrics-text; version=1.0.0")):
        families = list(read(_page(*samples, accept=accept)))
        found = {
            (each.name, *sorted(each.labels.items())): each.value for family in families for each in family.samples
        }
        assert found[("stream_tgat_interactions_total",)] == 3
        assert found[("stream_tgat_pending_rows",)] == 7
        reason = ("reason", 'field "x" must\nbe a number')
        assert found[("stream_tgat_dead_letters_total", reason, ("topic", "labels"))] == 2
        counts = {k[1][1]: v for k, v in found.items() if k[0] == "stream_tgat_event_to_embedding_seconds_bucket"}
        assert counts == {"0.1": 0, "1.0": 1, "+Inf": 1}
        assert found[("stream_tgat_event_to_embedding_seconds_sum",)] == 0.5
        assert found[("process_resident_memory_bytes",)] > 0
    # What has no value is not there: a 0 that nobody measured would be a lie.
    assert "stream_tgat_model_version" not in _page(*samples)


def test_names_are_there_once() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)
    assert {value.name for value in vars(catalogue).values() if isinstance(value, Metric)} == {m.name for m in ALL}


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_metric_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"stream_tgat_[a-z][a-z_]*[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter"), "what only grows is named so, and nothing else"
    assert not SCALED.search(metric.name), "base units only"
    for unit in UNITS:
        name = metric.name.removesuffix("_total")
        assert unit not in name.split("_") or name.endswith(unit), "the unit stands at the end"
    assert metric.help
    assert not metric.help.endswith("."), "they are shown in a table"
    assert (metric.kind == "histogram") == bool(metric.bounds)
    assert list(metric.bounds) == sorted(set(metric.bounds))
    assert all(
        re.fullmatch(r"[a-z]+", label) and label not in ("le", "quantile", "job", "instance") for label in metric.labels
    )
