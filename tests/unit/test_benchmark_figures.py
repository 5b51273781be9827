"""What the benchmarks make of their numbers: medians, noise, ratios of two versions, and the distance from limits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def _module(name: str) -> ModuleType:
    """A module of the benchmarks, which are programs in a folder and no package."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


figures = _module("figures")
distance = _module("distance")
page = _module("page")
Figure = figures.Figure


def test_runs_are_told_by_their_median_and_the_last_ones_conditions() -> None:
    runs = [[Figure("a", value, "us", context={"run": at})] for at, value in enumerate((3.0, 1.0, 2.0))]
    (found,) = figures.of_runs(runs)
    assert (found.value, found.runs, found.context) == (2.0, (3.0, 1.0, 2.0), {"run": 2})
    assert found.span == (1.0, 3.0)


@pytest.mark.parametrize(
    ("now", "before", "more_is_better", "expected"),
    [
        ((10.0, 11.0, 12.0), (12.0, 13.0, 14.0), False, "same"),
        ((10.0, 11.0, 11.9), (12.0, 13.0, 14.0), False, "better"),
        ((10.0, 11.0, 11.9), (12.0, 13.0, 14.0), True, "worse"),
        ((15.0, 16.0, 17.0), (12.0, 13.0, 14.0), True, "better"),
    ],
)
def test_figures_differ_only_where_their_runs_lie_apart(
    now: tuple[float, ...], before: tuple[float, ...], more_is_better: bool, expected: str
) -> None:
    found, committed = (Figure("a", runs[1], "", more_is_better, {}, runs) for runs in (now, before))
    assert figures.verdict(found, committed) == expected


def test_single_runs_are_given_the_usual_noise() -> None:
    before = Figure("a", 100.0, "us", runs=(100.0,))
    assert figures.verdict(Figure("a", 130.0, "us"), before) == "same"
    assert figures.verdict(Figure("a", 136.0, "us"), before) == "worse"


def test_ratio_is_of_the_turns_and_not_of_the_medians() -> None:
    """A machine that gets slower with each turn hides nothing: B takes half again as long as A in each."""
    a = [10.0, 20.0, 40.0, 80.0]
    assert figures.ratio_of_pairs(a, [1.5 * each for each in a]) == (1.5, 1.5, 1.5, 0.875)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    figure = Figure("a", 1.5, "/s", True, {"rate": 500}, (1.0, 1.5, 2.0))
    figures.dump([figure], tmp_path / "new" / "results.json")
    assert figures.load((tmp_path / "new" / "results.json").read_text()) == {"a": figure}


def test_distance_is_told_of_what_was_measured_and_has_a_limit() -> None:
    known = {
        "engine_512_per_s": Figure("engine_512_per_s", 10_000.0, "/s", True),
        "limit_flops_us": Figure("limit_flops_us", 30.0, "us"),
        "limit_bytes_us": Figure("limit_bytes_us", 10.0, "us"),
        "bulk_worker_us": Figure("bulk_worker_us", 180.0, "us"),
    }
    (_, line) = distance.distances(known, {"engine_512_per_s": known["engine_512_per_s"]})
    assert " ".join(line.split()) == "engine, batches of 512 100 us, limit 30 flops + 10 bytes = 40 us: x 2.5"
    assert distance.distances(known, {"train_batch_s": Figure("train_batch_s", 0.2, "s")}) == []


def test_model_is_the_straight_line_through_what_was_used() -> None:
    """Half a core whatever comes, and 100 µs for each interaction."""
    rates = [500.0, 1000.0, 3000.0]
    assert page.fit(rates, [0.5 + 1e-4 * rate for rate in rates]) == pytest.approx((0.5, 1e-4))


def test_tables_are_written_where_the_page_has_places_for_them(tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_text((FOLDER.parents[1] / "docs" / "performance.md").read_text())
    bulk = Figure("bulk_per_s", 5000.0, "/s", True, {}, (4000.0, 5000.0, 5500.0))
    page.write(copy, {"bulk_per_s": bulk})
    assert "| bulk, one worker | 4,500-5,800/s | 5,000/s (4,000-5,500) | 8,000/s |" in copy.read_text()
    once = copy.read_text()
    page.write(copy, {"bulk_per_s": bulk})
    assert copy.read_text() == once
