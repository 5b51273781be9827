"""What 200 lookups a second cost a stream of 500 interactions/s: its p99 and CPU without and with them, in turns.

Eight turns of two windows of fifteen seconds each, in the order A B, B A, so that what else the machine does meets
both: under five minutes in all. Deployment and questions are those of `lookups`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from asking import Asker, Questions, asking, get
from bench_lookups import ITEMS, PRELOADED, names, serving, wait_for_catalog
from figures import Figure, ratio_of_pairs
from load import ITEMS_VARIABLE
from path import Deployment, path
from processes import cpu_s

RATE, ASKED_PER_S = 500.0, 200.0
TURNS, SECONDS = int(os.environ.get("TURNS", "8")), 15.0


@dataclass(frozen=True)
class Window:
    """What came of one. CPU of worker and service: in us for each interaction"""

    p50_ms: float
    p99_ms: float
    worker_us: float
    service_us: float
    beside_cores: float
    answers_p99_ms: float = float("nan")


def run() -> list[Figure]:
    os.environ[ITEMS_VARIABLE] = str(ITEMS)
    with path(PRELOADED + int(RATE * (SECONDS * (2 * TURNS + 1) + 10))) as deployment:
        deployment.preload(PRELOADED)
        with deployment.working(), serving(deployment) as (port, service), asking(port) as asker:
            deployment.wait_for_all()
            wait_for_catalog(port)
            users, _ = names()
            questions = Questions([get(f"/v1/nodes/user/{user}") for user in users], ASKED_PER_S, SECONDS)
            deployment.live(RATE, 2.0)
            window(deployment, service, asker, questions)
            without: list[Window] = []
            asked: list[Window] = []
            for turn in range(TURNS):
                for asks in (False, True) if turn % 2 == 0 else (True, False):
                    found = window(deployment, service, asker if asks else None, questions)
                    (asked if asks else without).append(found)
                print(f"  p99 {without[-1].p99_ms:.0f} without, {asked[-1].p99_ms:.0f} ms with questions", flush=True)
            return figures(without, asked, deployment.context())


def window(deployment: Deployment, service: int, asker: Asker | None, questions: Questions) -> Window:
    """The stream for a while, with questions if there is one who asks."""
    before = cpu_s(service)
    if asker is not None:
        asker.begin(questions)
    live = deployment.live(RATE, SECONDS, 0.0)
    answers = None if asker is None else asker.end()
    if answers is not None and answers.failed:
        raise RuntimeError(f"{answers.failed} questions had no answer")
    return Window(
        live.percentile_ms(50),
        live.percentile_ms(99),
        live.usage.us("worker", live.play.count),
        1e6 * (cpu_s(service) - before) / live.play.count,
        live.usage.beside_cores,
        float("nan") if answers is None else answers.percentile_ms(99),
    )


def figures(without: list[Window], asked: list[Window], context: dict[str, object]) -> list[Figure]:
    """Medians over the windows, and the median of the ratio within each turn."""
    ratio, low, high, sure = ratio_of_pairs([each.p99_ms for each in without], [each.p99_ms for each in asked])
    context = {
        **context,
        "interactions_per_s": RATE,
        "asked_per_s": ASKED_PER_S,
        "turns": len(asked),
        "ratios": f"{low:.2f} to {high:.2f} ({sure:.0%})",
    }

    def median(windows: list[Window], name: str) -> float:
        return float(np.median([getattr(each, name) for each in windows]))

    return [
        Figure(f"stream_{key}_{name}_lookups_{unit}", median(windows, f"{key}_{unit}"), unit, context=context)
        for key, unit in (("p50", "ms"), ("p99", "ms"), ("worker", "us"), ("service", "us"))
        for name, windows in (("without", without), ("with", asked))
    ] + [
        Figure("stream_p99_by_lookups", ratio, "x", context=context),
        Figure("lookup_p99_beside_ms", median(asked, "answers_p99_ms"), "ms", context=context),
    ]
