"""What topic `latest` costs: CPU time of the worker for each interaction, and latency, with it and without."""

from __future__ import annotations

import os

from figures import Figure
from path import PRELOADED, WARM_UP, bulk, cpu_figures, path

RATE = float(os.environ.get("RATE", "500"))
SECONDS, WARM_UP_S = 10.0, 4.0
BULK = 15_000


def run() -> list[Figure]:
    figures = []
    for name, serving in (("without_latest", ""), ("with_latest", "latest = true")):
        with path(PRELOADED + int(RATE * (SECONDS + WARM_UP_S)) + WARM_UP + BULK + 1, serving=serving) as deployment:
            deployment.preload(WARM_UP + BULK)
            with deployment.working():
                rate, usage = bulk(deployment, BULK)
                live = deployment.live(RATE, SECONDS, WARM_UP_S)
            context = {**deployment.context(), "latest_records": deployment.records("latest") if serving else 0}
            figures.append(Figure(f"{name}_bulk_per_s", rate, "/s", more_is_better=True, context=context))
            figures += cpu_figures(f"{name}_bulk", usage, BULK, context)
            figures += live.figures(f"{name}_{RATE:.0f}", context)
    return figures
