"""Answers of the query service over minutes beside the stream, while the worker is killed and started again.

Points, scores and recommendations are mixed. After SIGKILL there may be no answers but 503 until another worker has
the partitions; none may be an error, and the service may not grow.
"""

from __future__ import annotations

import os
import signal
import time

import numpy as np
from asking import Questions, asking, get, post
from bench_lookups import ITEMS, names, pairs, serving, wait_for_catalog
from figures import Figure
from load import ITEMS_VARIABLE
from path import Worker, path
from processes import resident_bytes

PRELOADED = 20_000
RATE = 200.0
ASKED_PER_S = float(os.environ.get("ASKED", "50"))
SECONDS = float(os.environ.get("SECONDS", "150"))
KILLED_AFTER_S = SECONDS / 3


def run() -> list[Figure]:
    os.environ[ITEMS_VARIABLE] = str(ITEMS)
    with path(PRELOADED + int(RATE * (2 * SECONDS + 60))) as deployment:
        deployment.preload(PRELOADED)
        with deployment.working(), serving(deployment) as (port, service), asking(port) as asker:
            deployment.wait_for_all()
            wait_for_catalog(port)
            users, items = names()
            mixed = []
            for n, user in enumerate(users):
                mixed += [get(f"/v1/nodes/user/{user}")] * 7 + [get(f"/v1/nodes/user/{user}/similar?k=5")]
                mixed += [post("/v1/score", {"pairs": pairs(user, items, n)}), get(f"/v1/users/{user}/recommend?k=10")]
            asker.ask(Questions(mixed, ASKED_PER_S, 20.0))
            before = resident_bytes(service)
            asker.begin(Questions(mixed, ASKED_PER_S, SECONDS))
            began = time.monotonic()
            deployment.live(RATE, KILLED_AFTER_S, 0.0)
            killed_at = time.monotonic() - began
            (worker,) = deployment.workers
            os.kill(worker.pid, signal.SIGKILL)
            deployment.workers = [Worker(deployment.file, 0)]
            deployment.live(RATE, max(SECONDS - killed_at - 5.0, 10.0), 0.0)
            answers = asker.end(2 * SECONDS)
            grown = resident_bytes(service) - before
    due = np.arange(len(answers.status)) / ASKED_PER_S
    refused, wrong = answers.status == 503, ~np.isin(answers.status, (200, 503))
    is_after = due > killed_at
    away = due[is_after & refused]
    answered = answers.latency_s[answers.status == 200]
    context = {
        "interactions_per_s": RATE,
        "asked_per_s": ASKED_PER_S,
        "seconds": SECONDS,
        "answers": len(due),
        "of_them_503": int(refused.sum()),
        "503_before_the_kill": int((refused & ~is_after).sum()),
        "longest_ms": round(float(1e3 * answers.latency_s.max())),
        "p50_ms": round(float(1e3 * np.median(answered)), 1),
    }
    return [
        Figure("asked_with_errors", float(wrong.sum()), "answers", context=context),
        Figure("asked_away_s", float(away.max() - killed_at) if len(away) else 0.0, "s", context=context),
        Figure("asked_grown_mb", grown / 1e6, "MB", context=context),
    ]
