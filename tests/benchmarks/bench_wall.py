"""Latency and CPU time by the clock, without punctuation; the wait for late events is in the latency."""

from __future__ import annotations

from figures import Figure
from path import PRELOADED, path

RATES = (500.0, 2600.0)
SECONDS, WARM_UP_S = 10.0, 4.0


def run() -> list[Figure]:
    with path(PRELOADED + int(sum(RATES) * (SECONDS + WARM_UP_S)) + 1, clock="wall") as deployment:
        deployment.preload(PRELOADED)
        figures = []
        with deployment.working():
            deployment.wait_for_all()
            for rate in RATES:
                live = deployment.live(rate, SECONDS, WARM_UP_S)
                figures += live.figures(f"wall_{rate:.0f}", deployment.context())
        return figures
