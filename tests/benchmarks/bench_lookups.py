"""Latency of the query service beside a worker at 500 interactions/s.

One worker, 8 partitions, the service and who asks are processes of their own on the same two cores. Items are 10,000:
each is met once before the rest of the graph is played, so that all of them are known.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import orjson
from asking import Answers, Asker, Questions, asking, get, post
from broker import free_port
from figures import Figure
from load import ITEMS_VARIABLE, graph
from path import Deployment, environment, path

ITEMS = 10_000
PRELOADED = 20_000
RATE = float(os.environ.get("RATE", "500"))
LOOKUPS = [float(rate) for rate in os.environ.get("LOOKUPS", "50 200").split()]
SCORES, RECOMMENDATIONS = 20.0, 10.0
SECONDS = float(os.environ.get("SECONDS", "15"))
#: Of what is asked more seldom, so that its 99th percentile is more than its slowest.
LONGER = 2.0


def run() -> list[Figure]:
    os.environ[ITEMS_VARIABLE] = str(ITEMS)
    plays = len(LOOKUPS) + 2 * LONGER
    with path(PRELOADED + int(RATE * (SECONDS * plays + 60))) as deployment:
        deployment.preload(PRELOADED)
        with deployment.working(), serving(deployment) as (port, _), asking(port) as asker:
            deployment.wait_for_all()
            known = wait_for_catalog(port)
            users, items = names()
            context = {**deployment.context(), "interactions_per_s": RATE, "items_known": known}
            points = [get(f"/v1/nodes/user/{user}") for user in users]
            scores = [post("/v1/score", {"pairs": pairs(user, items, n)}) for n, user in enumerate(users)]
            recommendations = [get(f"/v1/users/{user}/recommend?k=10") for user in users]
            deployment.live(RATE, 2.0)  # everybody has been asked once, and everything is compiled
            for requests in (points, scores, recommendations):
                asker.ask(Questions(requests, 10.0, 2.0))
            figures = []
            for name, requests, rate, seconds in (
                *((f"lookup_{rate:.0f}", points, rate, SECONDS) for rate in LOOKUPS),
                ("score_100", scores, SCORES, LONGER * SECONDS),
                ("recommend", recommendations, RECOMMENDATIONS, LONGER * SECONDS),
            ):
                answers, p99 = together(deployment, asker, Questions(requests, rate, seconds))
                also = {**context, "asked_per_s": rate, "failed": answers.failed, "stream_p99_ms": round(p99, 1)}
                figures.append(Figure(f"{name}_p50_ms", answers.percentile_ms(50), "ms", context=also))
                figures.append(Figure(f"{name}_p99_ms", answers.percentile_ms(99), "ms", context=also))
            return figures


def together(deployment: Deployment, asker: Asker, questions: Questions) -> tuple[Answers, float]:
    """Answers to questions beside the stream, and the stream's p99 meanwhile in ms."""
    asker.begin(questions)
    live = deployment.live(RATE, questions.seconds, 0.0)
    return asker.end(), live.percentile_ms(99)


def names() -> tuple[list[str], list[str]]:
    """Users and items to ask about: those of the preloaded part, mixed."""
    random, known = np.random.default_rng(5), graph()
    users = sorted({user.decode() for user in known.users[:PRELOADED]})
    items = sorted({item.decode() for item in known.items[:PRELOADED]})
    return random.permutation(users)[:500].tolist(), random.permutation(items).tolist()


def pairs(user: str, items: list[str], n: int) -> list[dict[str, str]]:
    """A user with a hundred items, others for each n."""
    return [{"user": user, "item": items[(100 * n + k) % len(items)]} for k in range(100)]


@contextmanager
def serving(deployment: Deployment) -> Iterator[tuple[int, int]]:
    """The query service; its port, and its process."""
    port = free_port()
    log = deployment.file.parent / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "stream_tgat", "serve", "--port", str(port)],
            env=environment(deployment.file),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deployment.wait_for("the query service", lambda: status(port, "/readyz") == 200)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def wait_for_catalog(port: int, patience_s: float = 120.0) -> int:
    """Wait until the service knows all items; how many it knows."""
    deadline, known = time.monotonic() + patience_s, 0
    while known < ITEMS and time.monotonic() < deadline:
        time.sleep(0.5)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/nodes/item/i0/similar") as answer:
            known = orjson.loads(answer.read())["searched"]
    return known


def status(port: int, where: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{where}") as answer:
            return int(answer.status)
    except OSError:
        return 0
