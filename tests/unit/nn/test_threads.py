"""Products of micro-batches take one thread, NumPy's as well as torch's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ASK = """
import json, numpy, torch
from threadpoolctl import threadpool_info
from stream_tgat.nn.threads import use_one_thread
numpy.ones((8, 8)) @ numpy.ones((8, 8))
use_one_thread()
blas = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
print(json.dumps([torch.get_num_threads(), *blas]))
"""


@pytest.mark.slow
def test_torch_and_numpy_have_one_thread_each() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    # More than one on any machine, unless it is told otherwise.
    environment["OPENBLAS_NUM_THREADS"] = environment["MKL_NUM_THREADS"] = "2"
    said = subprocess.run([sys.executable, "-c", ASK], env=environment, check=True, capture_output=True, text=True)
    threads = json.loads(said.stdout)
    assert len(threads) >= 2
    assert set(threads) == {1}
