"""Latency of the query service beside a worker at 500 interactions/s, and the stream's own without and with questions.

One worker, 8 partitions, the service and who asks are processes of their own on the same two cores. Items are 10,000:
each is met once before the rest of the graph is played, so that all of them are known.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import orjson
from asking import Answers, Asker, Questions, asking, get, post
from figures import Figure
from load import ITEMS_VARIABLE, graph
from path import Deployment, environment, path

ITEMS = 10_000
PRELOADED = 20_000
RATE = float(os.environ.get("RATE", "500"))
LOOKUPS = [float(rate) for rate in os.environ.get("LOOKUPS", "50 200").split()]
SCORES, RECOMMENDATIONS = 20.0, 10.0
SECONDS = float(os.environ.get("SECONDS", "10"))
#: The stream with and without questions, in turns.
TURNS = 3
ASKED_PER_S = 200.0


def run() -> list[Figure]:
    os.environ[ITEMS_VARIABLE] = str(ITEMS)
    plays = len(LOOKUPS) + 2 + 2 * TURNS
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
            for name, requests, rate in (
                *((f"lookup_{rate:.0f}", points, rate) for rate in LOOKUPS),
                ("score_100", scores, SCORES),
                ("recommend", recommendations, RECOMMENDATIONS),
            ):
                answers, p99 = together(deployment, asker, Questions(requests, rate, SECONDS))
                also = {**context, "asked_per_s": rate, "failed": answers.failed, "stream_p99_ms": round(p99, 1)}
                figures.append(Figure(f"{name}_p50_ms", answers.percentile_ms(50), "ms", context=also))
                figures.append(Figure(f"{name}_p99_ms", answers.percentile_ms(99), "ms", context=also))
            return figures + beside(deployment, asker, points, context)


def beside(deployment: Deployment, asker: Asker, points: list[bytes], context: dict[str, object]) -> list[Figure]:
    """The stream's p99 without questions and with them, in turns, so that what else the machine does meets both."""
    without, asked = [], []
    for _ in range(TURNS):
        without.append(deployment.live(RATE, SECONDS, 1.0).percentile_ms(99))
        asked.append(together(deployment, asker, Questions(points, ASKED_PER_S, SECONDS))[1])
    context = {**context, "asked_per_s": ASKED_PER_S, "turns": TURNS}
    return [
        Figure("stream_p99_without_lookups_ms", float(np.median(without)), "ms", context=context),
        Figure("stream_p99_with_lookups_ms", float(np.median(asked)), "ms", context=context),
        Figure("stream_p99_by_lookups", float(np.median(np.array(asked) / without)), "x", context=context),
    ]


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
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
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
