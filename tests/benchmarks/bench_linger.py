"""What `serving.linger_ms` gives and takes: latency and CPU time at steady rates, one worker, 8 partitions."""

from __future__ import annotations

import os

from figures import Figure
from path import PRELOADED, path

LINGER_MS = [int(each) for each in os.environ.get("LINGER_MS", "12 20 40 100").split()]
RATES = [float(rate) for rate in os.environ.get("RATES", "500 2600").split()]
SECONDS, WARM_UP_S = 6.0, 2.0


def run() -> list[Figure]:
    return [figure for linger_ms in LINGER_MS for figure in of_linger(linger_ms)]


def of_linger(linger_ms: int) -> list[Figure]:
    """With records that wait so long at most."""
    most = PRELOADED + int(sum(RATES) * (SECONDS + WARM_UP_S)) + 1
    with path(most, serving=f"linger_ms = {linger_ms}") as deployment:
        deployment.preload(PRELOADED)
        figures = []
        with deployment.working():
            deployment.wait_for_all()
            for rate in RATES:
                live = deployment.live(rate, SECONDS, WARM_UP_S)
                context = {**deployment.context(), "linger_ms": linger_ms}
                figures += live.figures(f"linger_{linger_ms}_{rate:.0f}", context)
        return figures
