"""Whether a worker has to compile its loops first, which it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_tgat import compiled


def test_loops_of_the_engine_are_compiled_once_it_has_run_and_not_by_a_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    found = []
    for package in ("nn", "engine"):
        kept = tmp_path / package / "__pycache__"
        kept.mkdir(parents=True)
        (kept / "loops.dot-31.py311.nbi").touch()
        found.append(compiled.is_compiled())
    assert found == [False, True]
