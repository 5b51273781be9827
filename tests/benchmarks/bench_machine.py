"""Speed of one core in dense float32 products, so that figures of different machines can be compared."""

from __future__ import annotations

import os
import platform
import time

import torch

from stream_tgat.nn.threads import use_one_thread

SIZE = 1024
ROUNDS = 30


def run() -> list[dict[str, object]]:
    """GFLOP/s of the best of some products of two SIZE x SIZE matrices on one thread."""
    use_one_thread()
    left, right = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    out = torch.empty(SIZE, SIZE)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - start)
    return [
        {
            "name": "sgemm_gflops",
            "value": 2 * SIZE**3 / best / 1e9,
            "unit": "GFLOP/s",
            "context": {"size": SIZE, "threads": 1, "cores": os.cpu_count(), "machine": platform.machine()},
        }
    ]
