"""How fast one core is, so that figures of different machines and moments can be compared."""

from __future__ import annotations

import time

import numpy as np
import torch

SIZE = 1024


def sgemm_gflops(rounds: int = 30) -> float:
    """float32 products of one core: the best of some, in thread CPU time, so what runs beside counts little."""
    left, right, out = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE), torch.empty(SIZE, SIZE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    best = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        torch.mm(left, right, out=out)
        best = min(best, time.thread_time() - began)
    torch.set_num_threads(threads)
    return 2 * SIZE**3 / best / 1e9


def read_gbytes(rounds: int = 8) -> float:
    """GB/s at which one core reads memory that no cache holds: the best of some sums over 512 MB."""
    block = np.ones(128 << 20, np.float32)
    best = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        block.view(np.float64).max()
        best = min(best, time.thread_time() - began)
    return block.nbytes / best / 1e9
