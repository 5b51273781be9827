"""How many threads a matrix product may take."""

import torch
from threadpoolctl import threadpool_limits


def use_one_thread() -> None:
    """One thread for the products of torch and of NumPy, in this process and for good.

    Those of a micro-batch are so small that threads cost more than they bring, and the other cores have other work.
    """
    use_threads(1)


def use_threads(count: int) -> None:
    """So many threads, at most, for the products of torch and of NumPy, in this process and for good.

    Each of the two libraries has threads of its own: NumPy's take no notice of torch's limit.
    """
    torch.set_num_threads(count)
    threadpool_limits(count, user_api="blas")
