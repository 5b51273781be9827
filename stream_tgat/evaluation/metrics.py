"""Figures of merit, under the name by which evaluation knows them; training has them as it must judge what it made."""

from stream_tgat.training.metrics import BinaryMetrics, binary_metrics

__all__ = ["BinaryMetrics", "binary_metrics"]
