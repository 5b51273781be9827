"""Latency and CPU time at a steady rate: one worker, 8 partitions, a punctuation every 20 ms."""

from __future__ import annotations

import os

from figures import Figure
from path import steadily

RATES = [float(rate) for rate in os.environ.get("RATES", "500 2600 4000").split()]
SECONDS, WARM_UP_S = 10.0, 4.0


def run() -> list[Figure]:
    return steadily("live", RATES, SECONDS, WARM_UP_S)
