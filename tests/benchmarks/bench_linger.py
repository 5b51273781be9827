"""What `serving.linger_ms` gives and takes: latency and CPU time at steady rates, one worker, 8 partitions."""

from __future__ import annotations

import os

from figures import Figure
from path import steadily

LINGER_MS = [int(each) for each in os.environ.get("LINGER_MS", "12 20 40 100").split()]
RATES = [float(rate) for rate in os.environ.get("RATES", "500 2600").split()]
SECONDS, WARM_UP_S = 6.0, 2.0


def run() -> list[Figure]:
    return [
        figure
        for linger_ms in LINGER_MS
        for figure in steadily(f"linger_{linger_ms}", RATES, SECONDS, WARM_UP_S, serving=f"linger_ms = {linger_ms}")
    ]
