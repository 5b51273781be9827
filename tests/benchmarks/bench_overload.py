"""Overload: 130 % of bulk for 30 s, then a quarter of it; how latency and memory grow, and when all is as before."""

from __future__ import annotations

import threading

import numpy as np
from figures import Figure
from path import INTERACTIONS, WARM_UP, Deployment, bulk, path

OVER, CALM = 1.3, 0.25
OVER_S, CALM_S, BEFORE_S = 30.0, 30.0, 5.0
FASTEST = 20_000
MB_EVERY_S = 0.5


def run() -> list[Figure]:
    preloaded = WARM_UP + INTERACTIONS
    most = FASTEST * (OVER * OVER_S + CALM * (CALM_S + 2 * BEFORE_S))
    with path(preloaded + int(most)) as deployment:
        deployment.preload(preloaded)
        with deployment.working():
            full, _ = bulk(deployment)
            before = deployment.live(CALM * full, BEFORE_S)
            mb_before = deployment.resident_mb()
            over = deployment.take(int(OVER * full * OVER_S), OVER * full)
            calm = deployment.take(int(CALM * full * CALM_S), CALM * full)
            with watched(deployment) as mb:
                played = deployment.generator.play(over)
                afterwards = deployment.generator.play(calm)
                deployment.wait_for_all()
        latency = deployment.reader.latency_s(over, played).max(1)
        second = np.arange(over.count) / (OVER * full)
        slope, _ = np.polyfit(second, latency, 1)
        straight = np.corrcoef(second, latency)[0, 1] ** 2
        calm_latency = deployment.reader.latency_s(calm, afterwards).max(1)
        usual = np.percentile(before.latency_s, 99)
        late = np.flatnonzero(calm_latency > 2 * usual)
        # The generator begins the calm part when the other has left, which may be later than it was due.
        recovered = afterwards.start - (played.start + OVER_S) + (late[-1] + 1) / (CALM * full) if len(late) else 0.0
        context = {
            **deployment.context(),
            "bulk": round(full),
            "rate": round(OVER * full),
            "took_in": round(over.count / played.seconds),
            "generator_behind_p99_ms": round(1e3 * played.behind_s),
            "p99_before_ms": round(1e3 * float(usual)),
            "by_second_ms": [
                round(1e3 * float(np.median(latency[(second >= at) & (second < at + 1)]))) for at in range(int(OVER_S))
            ],
        }
        return [
            Figure("overload_latency_grows_ms_per_s", 1e3 * slope, "ms/s", context=context),
            Figure("overload_latency_straight_r2", straight, "", more_is_better=True, context=context),
            Figure(
                "overload_memory_grows_mb", max(mb) - mb_before, "MB", context={**context, "before": round(mb_before)}
            ),
            Figure("overload_recovered_s", float(recovered), "s", context=context),
        ]


class watched:  # noqa: N801
    """The workers' memory from time to time, as a list of MB."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment, self._mb, self._done = deployment, [deployment.resident_mb()], threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(MB_EVERY_S):
            self._mb.append(self._deployment.resident_mb())

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._mb

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
