"""What a worker measures of itself: names, units, meanings, and the page that tells. It knows no Kafka and no graph."""

from stream_tgat.metrics import catalogue
from stream_tgat.metrics.catalogue import ALL, Metric
from stream_tgat.metrics.histogram import Histogram
from stream_tgat.metrics.samples import Sample

__all__ = ["ALL", "Histogram", "Metric", "Sample", "catalogue"]
