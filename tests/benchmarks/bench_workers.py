"""Many workers: 32 partitions and 1, 2 and 4 workers; bulk, 500/s in all, and 250/s for each worker."""

from __future__ import annotations

import os

from figures import Figure
from path import Deployment, cpu_figures, path

PARTITIONS = 32
WORKERS = [int(count) for count in os.environ.get("WORKERS", "1 2 4").split()]
EACH = float(os.environ.get("RATES", "250"))
IN_ALL = 500.0
SECONDS, WARM_UP_S = 6.0, 3.0
BULK, PRELOADED = 12_000, 6_000


def run() -> list[Figure]:
    return [figure for count in WORKERS for figure in of_workers(count)]


def of_workers(count: int) -> list[Figure]:
    """With so many workers, which have read the log before anything is measured."""
    rates = {"in_all": IN_ALL, "each": EACH * count}
    most = PRELOADED + BULK + int(sum(rates.values()) * (SECONDS + WARM_UP_S))
    with path(most, partitions=PARTITIONS) as deployment, deployment.working(count):
        # All have their partitions before the first interaction comes.
        deployment.wait_for("the workers", lambda: all("Worker ready" in w.log.read_text() for w in deployment.workers))
        deployment.preload(PRELOADED)
        deployment.wait_for_all()
        figures = []
        for name, rate in rates.items():
            live = deployment.live(rate, SECONDS, WARM_UP_S)
            figures += live.figures(f"workers_{count}_{name}", {**deployment.context(), "workers": count})
        return [*figures, *at_once(deployment, count)]


def at_once(deployment: Deployment, count: int) -> list[Figure]:
    """Everything is sent as fast as the broker takes it; the load shares the cores for about a third of the time."""
    meter, play = deployment.meter(), deployment.take(BULK, punctuate_s=0.1)
    played = deployment.generator.play(play)
    deployment.wait_for_all()
    usage = meter.usage()
    arrived = deployment.reader.arrived[play.begin : deployment.at]
    context = {**deployment.context(), "workers": count, "beside_cores": round(usage.beside_cores, 2)}
    return [
        Figure(
            f"workers_{count}_bulk_per_s",
            BULK / float(arrived.max() - played.start),
            "/s",
            more_is_better=True,
            context=context,
        ),
        *cpu_figures(f"workers_{count}_bulk", usage, BULK, context),
    ]
