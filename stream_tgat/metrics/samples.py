"""What is measured at one moment."""

from typing import NamedTuple

from stream_tgat.metrics.catalogue import Metric
from stream_tgat.metrics.histogram import Histogram


class Sample(NamedTuple):
    """One value. labels: of the metric's labels, in their order"""

    metric: Metric
    value: float | Histogram
    labels: tuple[str, ...] = ()
