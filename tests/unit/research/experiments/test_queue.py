"""A run whose result is there is not run again; one that died leaves nothing that looks like a result."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from research.experiments.queue import ResultOrigin, Run, fill, read_records, scratch_of
from stream_tgat.errors import DataError


@dataclass(frozen=True)
class Result:
    value: float
    names: tuple[str, ...] = ()


def test_results_are_kept_and_only_what_is_missing_is_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def run(key: str, value: float) -> Run[Result]:
        return Run(key, lambda: ran.append(key) or Result(value, (key,)))

    first = fill(tmp_path / "table", Result, [run("a", 1.5)])
    told: list[tuple[str, bool]] = []
    both = fill(tmp_path / "table", Result, [run("a", 9.0), run("b", 2.0)], lambda *each: told.append(each))
    assert ran == ["a", "b"]
    assert told == [("a", True), ("b", False)]
    assert both == [*first, Result(2.0, ("b",))]


def test_undefined_figures_stay_undefined(tmp_path: Path) -> None:
    for _ in range(2):
        (found,) = fill(tmp_path / "table", Result, [Run("nan", lambda: Result(float("nan")))])
        assert math.isnan(found.value)


def test_run_that_fails_is_run_again(tmp_path: Path) -> None:
    def dies() -> Result:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        fill(tmp_path / "table", Result, [Run("a", dies)])
    assert fill(tmp_path / "table", Result, [Run("a", lambda: Result(1.0))]) == [Result(1.0)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"key": "a", "value": "much"}', r"table.jsonl: the line with the key 'a' holds no Result; delete it"),
        ('{"value": 1}', r"table.jsonl: a line has no key; delete it to have it made again: .*value"),
        ("much", r"table.jsonl: a line is no JSON; delete it to have it made again: b'much'"),
    ],
)
def test_line_that_is_no_result_is_refused_with_its_place(line: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "table.jsonl").write_text(f"{line}\n")
    with pytest.raises(DataError, match=told):
        fill(tmp_path / "table", Result, [Run("a", lambda: Result(1.0))])


def test_line_that_a_kill_cut_short_is_made_again(tmp_path: Path) -> None:
    fill(tmp_path / "table", Result, [Run("a", lambda: Result(1.0)), Run("b", lambda: Result(2.0))])
    file = tmp_path / "table.jsonl"
    whole = file.read_text()
    file.write_text(whole[:-5])
    ran: list[str] = []
    found = fill(tmp_path / "table", Result, [Run("b", lambda: ran.append("b") or Result(3.0))])
    assert (found, ran) == ([Result(3.0)], ["b"])
    assert [record.result for record in read_records(tmp_path / "table", Result)] == [Result(1.0), Result(3.0)]


def test_two_commands_that_fill_one_table_lose_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"

    def while_another_does() -> Result:
        fill(table, Result, [Run("theirs", lambda: Result(2.0)), Run("next", lambda: Result(3.0))])
        return Result(1.0)

    mine = fill(table, Result, [Run("mine", while_another_does), Run("next", lambda: Result(9.0))])
    assert mine == [Result(1.0), Result(3.0)]
    assert [record.result.value for record in read_records(table, Result)] == [1.0, 3.0, 2.0]


def test_record_says_how_its_result_came_about(tmp_path: Path) -> None:
    table = tmp_path / "table"
    fill(table, Result, [Run("a", lambda: Result(1.0))], origin=ResultOrigin("make a"))
    fill(table, Result, [Run("a", lambda: Result(9.0)), Run("b", lambda: Result(2.0))], origin=ResultOrigin("make b"))
    found = read_records(table, Result)
    assert [(record.command, record.device, record.result) for record in found] == [
        ("make a", "cpu", Result(1.0)),
        ("make b", "cpu", Result(2.0)),
    ]
    assert all(record.machine and record.seconds >= 0 for record in found)
    kept = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert [each["key"] for each in kept] == ["a", "b"]
    assert list(kept[0]) == ["key", "command", "device", "machine", "seconds", "result"]


def test_what_a_run_leaves_to_go_on_from_goes_when_its_result_is_kept(tmp_path: Path) -> None:
    scratch, found = scratch_of(tmp_path / "table", "a"), []

    def work() -> Result:
        found.append(scratch.exists())
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "place").write_text("half")
        if len(found) == 1:
            raise RuntimeError("killed")
        return Result(1.0)

    run = Run("a", work, scratch=scratch)
    with pytest.raises(RuntimeError):
        fill(tmp_path / "table", Result, [run])
    assert fill(tmp_path / "table", Result, [run]) == [Result(1.0)]
    assert found == [False, True]
    assert [file.name for file in tmp_path.iterdir()] == ["table.jsonl"]


def test_record_names_the_device_of_its_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Some GPU at {device}")
    fill(tmp_path / "table", Result, [Run("a", lambda: Result(1.0), "cuda:1"), Run("b", lambda: Result(2.0))])
    one, other = read_records(tmp_path / "table", Result)
    assert (one.device, one.machine, other.device) == ("cuda:1", "Some GPU at cuda:1", "cpu")


def test_folder_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "nothing", Result) == []
