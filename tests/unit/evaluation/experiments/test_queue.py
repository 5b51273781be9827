"""A run whose result is there is not run again; one that died leaves nothing that looks like a result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from stream_tgat.errors import DataError
from stream_tgat.evaluation.experiments.queue import Run, fill


@dataclass(frozen=True)
class Result:
    value: float
    names: tuple[str, ...] = ()


def test_results_are_kept_and_only_what_is_missing_is_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def run(key: str, value: float) -> Run[Result]:
        return Run(key, lambda: ran.append(key) or Result(value, (key,)))

    first = fill(tmp_path, Result, [run("a", 1.5)])
    told: list[tuple[str, bool]] = []
    both = fill(tmp_path, Result, [run("a", 9.0), run("b", 2.0)], lambda *each: told.append(each))
    assert ran == ["a", "b"]
    assert told == [("a", True), ("b", False)]
    assert both == [*first, Result(2.0, ("b",))]


def test_undefined_figures_stay_undefined(tmp_path: Path) -> None:
    for _ in range(2):
        (found,) = fill(tmp_path, Result, [Run("nan", lambda: Result(float("nan")))])
        assert math.isnan(found.value)


def test_run_that_fails_is_run_again(tmp_path: Path) -> None:
    def dies() -> Result:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        fill(tmp_path, Result, [Run("a", dies)])
    assert fill(tmp_path, Result, [Run("a", lambda: Result(1.0))]) == [Result(1.0)]


def test_file_that_is_no_result_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"value": "much"}')
    with pytest.raises(DataError, match=r"a.json holds no Result; delete it"):
        fill(tmp_path, Result, [Run("a", lambda: Result(1.0))])
