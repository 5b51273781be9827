"""What importing costs: commands that need no model must not wait for those that do."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_worker_module_loads_neither_torch_nor_numba() -> None:
    code = "import sys, stream_tgat.worker; print(sorted({'torch', 'numba', 'sklearn', 'pandas'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
