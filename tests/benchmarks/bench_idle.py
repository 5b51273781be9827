"""What a worker takes while nothing comes: a worker by the clock, whose partitions have all been read."""

from __future__ import annotations

import time

from figures import Figure
from path import path

INTERACTIONS = 5_000
REST_S, SECONDS = 5.0, 15.0
TOPICS = ("interactions", "propagation", "embeddings")


def run() -> list[Figure]:
    with path(INTERACTIONS, clock="wall") as deployment:
        deployment.preload(INTERACTIONS)
        with deployment.working():
            deployment.wait_for_all()
            time.sleep(REST_S)
            before, meter = deployment.records(*TOPICS), deployment.meter()
            time.sleep(SECONDS)
            usage = meter.usage()
            records = deployment.records(*TOPICS) - before
        context = {**deployment.context(), "beside_cores": round(usage.beside_cores, 2), "seconds": SECONDS}
        share = 100 / usage.seconds
        return [
            Figure("idle_worker_percent", share * usage.of["worker"], "% of core", context=context),
            Figure("idle_broker_percent", share * usage.of["broker"], "% of core", context=context),
            Figure("idle_records_per_s", records / usage.seconds, "/s", context=context),
        ]
