"""The page that Prometheus reads: what was measured, in its text format or in OpenMetrics, as it asks."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import (
    Metric as Family,
)
from prometheus_client.registry import Collector

from stream_tgat.metrics.catalogue import ALL, Metric
from stream_tgat.metrics.histogram import Histogram
from stream_tgat.metrics.samples import Sample


class Exposition(Collector):
    """All that `measured` says at the moment of asking, with memory, CPU time and open files of the process."""

    def __init__(self, measured: Callable[[], Iterable[Sample]], metrics: Sequence[Metric] = ALL) -> None:
        """metrics: those that there may be, in the order in which they are told"""
        self._measured = measured
        self._metrics = metrics
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def page(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type. accept: the header of the request, empty where there is none"""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Family]:
        """Called by prometheus-client: metrics in their order; those without a value are left out."""
        found: dict[str, list[Sample]] = {}
        for sample in self._measured():
            found.setdefault(sample.metric.name, []).append(sample)
        for metric in self._metrics:
            if metric.name in found:
                yield _family(metric, found[metric.name])

    def describe(self) -> Iterator[Family]:
        """Called when it is registered, before anything can be measured."""
        return iter(())


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in samples:
            if isinstance(sample.value, Histogram):
                histogram.add_metric(sample.labels, list(sample.value.buckets()), sample.value.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        if not isinstance(sample.value, Histogram):
            family.add_metric(sample.labels, sample.value)
    return family
