"""What a worker measures of itself: names, units, meanings, and the page that tells. It knows no Kafka and no graph."""

from stream_tgat.metrics import catalogue
from stream_tgat.metrics.catalogue import ALL, Metric
from stream_tgat.metrics.exposition import Exposition, Sample
from stream_tgat.metrics.histogram import Histogram

__all__ = ["ALL", "Exposition", "Histogram", "Metric", "Sample", "catalogue"]
