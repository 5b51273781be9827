"""Speed of one core: dense float32 products, and reading memory."""

from __future__ import annotations

import os
import platform

from figures import Figure
from speed import SIZE, read_gbytes, sgemm_gflops


def run() -> list[Figure]:
    context: dict[str, object] = {"size": SIZE, "threads": 1, "cores": os.cpu_count(), "machine": platform.machine()}
    return [
        Figure("sgemm_gflops", sgemm_gflops(), "GFLOP/s", more_is_better=True, context=context),
        Figure("memory_read_gbytes", read_gbytes(), "GB/s", more_is_better=True, context={"bytes": 512 << 20}),
    ]
