"""The load curve: latency and CPU time from 5 % to 100 % of bulk, one worker."""

from __future__ import annotations

from figures import Figure
from path import INTERACTIONS, WARM_UP, bulk, path

SHARES = (5, 10, 25, 50, 75, 90, 100)
SECONDS, WARM_UP_S = 6.0, 2.0
#: More than any worker does on two cores.
FASTEST = 20_000


def run() -> list[Figure]:
    preloaded = WARM_UP + INTERACTIONS
    with path(preloaded + int(sum(SHARES) / 100 * FASTEST * (SECONDS + WARM_UP_S))) as deployment:
        deployment.preload(preloaded)
        with deployment.working():
            full, _ = bulk(deployment)
            figures = [Figure("curve_bulk_per_s", full, "/s", more_is_better=True, context=deployment.context())]
            for share in SHARES:
                live = deployment.live(full * share / 100, SECONDS, WARM_UP_S)
                context = {**deployment.context(), "share": share}
                figures += live.figures(f"curve_{share}", context)
        return figures
