"""What metrics cost a worker: CPU for an interaction with them and without, in turns within one worker, five minutes.

With them the page is read once in each window, three times as often as Prometheus does by default; without them nothing
is observed and nobody reads. Throughput is what CPU time allows, so the ratio is the price.
"""

from __future__ import annotations

import os
import threading
import urllib.request
from pathlib import Path

import numpy as np
from broker import free_port
from figures import Figure, ratio_of_pairs
from path import PRELOADED, Deployment, path
from switched_metrics import OFF, ON

RATE = float(os.environ.get("RATE", "2600"))
SECONDS, PAIRS = 5.0, int(os.environ.get("PAIRS", "20"))


def run() -> list[Figure]:
    with path(PRELOADED + int(RATE * SECONDS * (2 * PAIRS + 2)) + 1) as deployment:
        deployment.preload(PRELOADED)
        port, script = free_port(), str(Path(__file__).with_name("switched_metrics.py"))
        with deployment.working(faust=[script], web=["--web-port", str(port), "--web-bind", "127.0.0.1"]):
            deployment.wait_for_all()
            window(deployment, port, counts=True)
            window(deployment, port, counts=False)
            without, counted = [], []
            for pair in range(PAIRS):
                for counts in (False, True) if pair % 2 else (True, False):
                    (counted if counts else without).append(window(deployment, port, counts=counts))
        ratio, low, high, _ = ratio_of_pairs(without, counted)
        error = float(np.std(np.array(counted) / without, ddof=1) / np.sqrt(PAIRS)) if PAIRS > 1 else float("nan")
        context = {
            **deployment.context(),
            "interactions_per_s": RATE,
            "pairs": PAIRS,
            "ratios": [round(low, 3), round(high, 3)],
            "standard_error_of_mean": round(error, 4),
        }
        return [
            Figure("without_metrics_worker_us", float(np.median(without)), "us", context=context),
            Figure("with_metrics_worker_us", float(np.median(counted)), "us", context=context),
            Figure("metrics_price", ratio, "x", context=context),
            Figure("metrics_price_mean", float(np.mean(np.array(counted) / without)), "x", context=context),
        ]


def window(deployment: Deployment, port: int, *, counts: bool) -> float:
    """CPU of the worker for an interaction, in us."""
    os.kill(deployment.workers[0].pid, ON if counts else OFF)
    reading = threading.Timer(SECONDS / 2, read_page, [port]) if counts else None
    if reading is not None:
        reading.start()
    live = deployment.live(RATE, SECONDS, 0.0)
    if reading is not None:
        reading.join()
    return live.usage.us("worker", live.play.count)


def read_page(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        if b"stream_tgat_event_to_embedding" not in page.read():
            raise RuntimeError("the page of metrics has no latency")
