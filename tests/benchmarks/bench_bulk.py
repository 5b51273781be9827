"""The whole path with a full log: one worker, 30,000 interactions."""

from __future__ import annotations

from figures import Figure
from path import INTERACTIONS, WARM_UP, bulk, cpu_figures, path


def run() -> list[Figure]:
    with path(WARM_UP + INTERACTIONS) as deployment:
        deployment.preload(WARM_UP + INTERACTIONS)
        with deployment.working():
            rate, usage = bulk(deployment)
        context = {**deployment.context(), "beside_cores": round(usage.beside_cores, 2), "workers": 1}
        return [
            Figure("bulk_per_s", rate, "/s", more_is_better=True, context=context),
            *cpu_figures("bulk", usage, INTERACTIONS, context),
        ]
