"""How many threads a matrix product may take."""

import torch
from threadpoolctl import threadpool_limits


def use_one_thread() -> None:
    """One thread for the products of torch and of NumPy, in this process and for good.

    Those of a micro-batch are so small that threads cost more than they bring, and the other cores have other work.
    Each of the two libraries has threads of its own: NumPy's take no notice of torch's limit.
    """
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
