"""Latency and CPU time at a steady rate: one worker, 8 partitions, a punctuation every 20 ms."""

from __future__ import annotations

import os

from figures import Figure
from path import PRELOADED, path

RATES = [float(rate) for rate in os.environ.get("RATES", "500 2600 4000").split()]
SECONDS, WARM_UP_S = 10.0, 4.0


def run() -> list[Figure]:
    with path(PRELOADED + int(sum(RATES) * (SECONDS + WARM_UP_S)) + 1) as deployment:
        deployment.preload(PRELOADED)
        figures = []
        with deployment.working():
            deployment.wait_for_all()
            for rate in RATES:
                live = deployment.live(rate, SECONDS, WARM_UP_S)
                figures += live.figures(f"live_{rate:.0f}", deployment.context())
        return figures
