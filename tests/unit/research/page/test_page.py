"""The page says what its files say: worst news first, nothing claimed within the error, the same bytes each time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from research.__main__ import main
from research.baselines.time_encodings import TimeEncodingKind
from research.experiments import ablations, attention
from research.experiments.ablations import AblationReport, Choice
from research.experiments.attention import AttentionReport
from research.experiments.labels import BASELINE, LabelComparison
from research.experiments.queue import ResultOrigin, ResultRecord, Run, fill
from research.experiments.statistics import Statistics, statistics
from research.labels import HeadReport, LabelFigures, LabelReport, QuestionPart
from research.page.labels import comparisons as label_comparisons
from research.page.link_tables import compare, comparisons, link_tables, questions
from research.page.markdown import table
from research.page.pages import RESULTS, filled, write_pages
from research.page.results import Results, read_results
from research.page.verdict import differ, verdict
from stream_tgat.errors import DataError
from stream_tgat.evaluation.bootstrap import Interval
from stream_tgat.evaluation.link_prediction import (
    Group,
    LinkProtocol,
    LinkReport,
    MethodReport,
    NegativeKind,
    PairFigures,
    Part,
    RankFigures,
)
from tests.unit.research.baselines.small import circles

DOCS = Path(__file__).parents[4] / "docs"
COMMAND = "python -m research links $DATA/some"


def report(part: Part, figure: float, mrr: float) -> LinkReport:
    pairs = tuple(PairFigures(g, kind, 60, figure, figure, figure, figure) for g in Group for kind in NegativeKind)
    return LinkReport("some", part, 0.5, 0.1, pairs, tuple(RankFigures(g, 60, mrr, mrr) for g in Group))


def runs(
    method: str, figures: Sequence[float], mrr: float = 0.5, validation: float = 0.5, command: str = COMMAND
) -> list[ResultRecord[MethodReport]]:
    return [
        ResultRecord(
            command, "cpu", "Some CPU", 60.0,
            MethodReport(
                method, seed, report(Part.VALIDATION, validation, mrr), report(Part.TEST, figure, mrr)
            ),
        )
        for seed, figure in enumerate(figures)
    ]  # fmt: skip


def results(*rows: list[ResultRecord[MethodReport]]) -> Results:
    return Results(Path("nowhere"), [record for row in rows for record in row], [], [], [])


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ([0.90, 0.91, 0.92], [0.80, 0.81, 0.82], True),
        # Means differ by 2, standard errors are 1 each: t = 1.41 with 4 degrees of freedom.
        ([0.90, 0.90 + 3**0.5 / 100, 0.90 - 3**0.5 / 100], [0.92, 0.92 + 3**0.5 / 100, 0.92 - 3**0.5 / 100], False),
        # t = 2.9 > 2.776, the 5 % value of 4 degrees of freedom; with 2.7 not.
        ([0.0, 1.0, -1.0], [2.9 * (2 / 3) ** 0.5 + x for x in (0.0, 1.0, -1.0)], True),
        ([0.0, 1.0, -1.0], [2.7 * (2 / 3) ** 0.5 + x for x in (0.0, 1.0, -1.0)], False),
        ([0.9], [0.1, 0.1, 0.1], False),
        ([0.9, 0.9], [0.8, 0.8], True),
        ([0.9, 0.9], [0.9, 0.9], False),
    ],
)
def test_differences_are_told_from_errors(one: list[float], two: list[float], expected: bool) -> None:
    assert differ(one, two) is expected


def test_defeats_come_first_and_what_is_within_the_error_is_not_claimed() -> None:
    made = results(
        runs("TGAT", [0.80, 0.81, 0.82], mrr=0.5),
        runs("GAT", [0.80, 0.815, 0.825], mrr=0.3),
        runs("boosted trees", [0.70, 0.71, 0.72], mrr=0.7),
    )
    text = verdict(comparisons(made))
    loses, opened, wins = text.split("**Where")[1:]
    assert loses.startswith(" TGAT does not win**")
    assert (
        "| [some 1](results/some.md#some-1) | MRR | TGAT | 50.00 (0.00) | boosted trees | 70.00 (0.00) | -20.00 |"
        in loses
    )
    assert "| [some 1](results/some.md#some-1) | AP | TGAT | 81.00 (1.00) | GAT | 81.33 (1.26) | -0.33 |" in opened
    assert "AP" not in loses
    assert wins.endswith("nowhere.")


def test_one_run_claims_nothing() -> None:
    text = verdict(comparisons(results(runs("TGAT", [0.9]), runs("GAT", [0.1]))))
    assert "**Where TGAT does not win**, by more than the error: nowhere." in text
    assert "**Where TGAT wins**, by more than the error: nowhere." in text


def test_the_row_of_tgat_that_validates_best_speaks() -> None:
    (made,) = link_tables(
        results(
            runs("TGAT", [0.9, 0.9], validation=0.6),
            runs("TGAT + pair recurrence", [0.8, 0.8], validation=0.7),
            runs("GAT", [0.85, 0.85], validation=0.9),
        )
    )
    found = compare(made, "AP")
    assert found is not None
    assert (found.ours.method, found.other.method) == ("TGAT + pair recurrence", "GAT")
    assert found.difference == pytest.approx(-0.05)
    assert found.certain


def test_tables_are_kept_apart_by_their_commands() -> None:
    active = runs("TGAT", [0.9], command=f"{COMMAND} --activity")
    found = link_tables(results(active, runs("TGAT", [0.8])))
    assert [(each.title, each.options, each.values("TGAT", "AP")) for each in found] == [
        ("some 1", "", [0.8]),
        ("some 2", "--activity", [0.9]),
    ]


def test_page_says_how_many_questions_of_each_kind_there_are() -> None:
    (made,) = link_tables(results(runs("TGAT", [0.9])))
    assert questions(made) == (
        "60 test interactions, all of them ranked, 60 with both nodes unseen; "
        "10.0 % of the random negatives were never seen"
    )
    (record,) = made.records
    fewer = replace(record.result.test, ranks=(RankFigures(Group.ALL, 20, 0.5, 0.5),))
    made = replace(made, records=(replace(record, result=replace(record.result, test=fewer)),))
    assert "60 test interactions, 20 of them, evenly spread over time, ranked" in questions(made)


def test_floors_that_are_missed_come_first_with_what_is_missing(tmp_path: Path) -> None:
    """Floors of wikipedia with activity: AP 99.0 and 99.4, AP historical 88.5, MRR 90.7; without: AP 96."""
    command = COMMAND.replace("some", "wikipedia")
    rows = [runs("TGAT", [0.95], command=command), runs("TGAT", [0.992], mrr=0.9, command=f"{command} --activity")]
    records = [record for row in rows for record in row]
    made = [
        replace(record, result=replace(record.result, test=replace(record.result.test, task="wikipedia")))
        for record in records
    ]
    lines = filled("{{ floors }}", results(made)).splitlines()[2:]
    assert [(line.split("|")[1:5], line.split("|")[7]) for line in lines] == [
        ([" wikipedia 1 ", " AP ", " 96.0 ", " aim "], " -1.00 "),
        ([" wikipedia 2 ", " AP ", " 99.4 ", " boosted trees "], " -0.20 "),
        ([" wikipedia 2 ", " MRR ", " 90.7 ", " boosted trees "], " -0.70 "),
        ([" wikipedia 2 ", " AP ", " 99.0 ", " aim "], " +0.20 "),
        ([" wikipedia 2 ", " AP historical ", " 88.5 ", " boosted trees "], " +10.70 "),
    ]


def label_runs(
    task: str, method: str, figures: Sequence[float], validation: float = 0.5
) -> list[ResultRecord[LabelReport]]:
    def figure(part: QuestionPart, area: float) -> LabelFigures:
        return LabelFigures(part, 60, 0.5, Interval(area, area, area, 0.0, 1000), 0.5)

    return [
        ResultRecord(
            f"python -m research labels {task}", "cpu", "Some CPU", 60.0,
            LabelReport(task, method, seed, (
                HeadReport("churn", figure(QuestionPart.VALIDATION, validation), figure(QuestionPart.TEST, area), ()),
            )),
        )
        for seed, area in enumerate(figures)
    ]  # fmt: skip


def label_results(task: str, rows: dict[str, list[ResultRecord[LabelReport]]], less: dict[str, Interval]) -> Results:
    command = f"python -m research labels {task}"
    compared = [
        ResultRecord(command, "cpu", "Some CPU", 1.0, LabelComparison(task, method, len(rows[method]), found))
        for method, found in less.items()
    ]
    records = [record for row in rows.values() for record in row]
    return Results(Path("nowhere"), [], [], [], [], records, compared)


def test_of_the_label_rows_of_tgat_the_one_that_validates_best_speaks_and_is_held_to_the_floors() -> None:
    """Aims: groceries 0 over trees, with -1 as the lower bound; the row that is best on test does not speak."""
    rows = {
        "TGAT": label_runs("groceries", "TGAT", [0.80, 0.82], validation=0.6),
        "TGAT + decayed sums": label_runs("groceries", "TGAT + decayed sums", [0.71, 0.73], validation=0.7),
        "Decayed sums": label_runs("groceries", "Decayed sums", [0.9, 0.9], validation=0.9),
        BASELINE: label_runs("groceries", BASELINE, [0.70]),
    }
    less = {
        "TGAT": Interval(0.11, 0.10, 0.12, 0.01, 1000),
        "TGAT + decayed sums": Interval(0.02, -0.015, 0.04, 0.01, 1000),
    }
    made = label_results("groceries", rows, less)
    (found,) = label_comparisons(made)
    assert (found.ours.method, found.certain) == ("TGAT + decayed sums", False)
    assert found.difference == pytest.approx(0.02)
    lines = filled("{{ floors }}", made).splitlines()[2:]
    assert [(line.split("|")[2], line.split("|")[7]) for line in lines] == [
        (" mean AUC over heads, less trees, lower bound ", " -0.50 "),
        (" mean AUC over heads, less trees ", " +2.00 "),
    ]


def test_floor_of_oulad_is_the_mean_auc_itself() -> None:
    rows = {"TGAT": label_runs("oulad", "TGAT", [0.79, 0.81]), BASELINE: label_runs("oulad", BASELINE, [0.80])}
    made = label_results("oulad", rows, {"TGAT": Interval(0.0, -0.1, 0.1, 0.05, 1000)})
    (line,) = filled("{{ floors }}", made).splitlines()[2:]
    assert [cell.strip() for cell in line.split("|")[1:4]] == ["oulad labels 1", "mean AUC over heads", "82.0"]
    assert line.split("|")[7] == " -2.00 "


def test_fidelity_is_the_mean_over_batches_beside_the_published_figure() -> None:
    """Published: 79.63; within two points is near enough."""
    records = [
        replace(record, result=replace(record.result, test=replace(record.result.test, task=data)))
        for data, figures in (("collegemsg", (0.80, 0.82)), ("another", (0.5,)))
        for record in runs("TGAT as in DyGLib", figures)
    ]
    text = filled("{{ fidelity }}", replace(results(), fidelity=records))
    assert "| collegemsg | 2 | 81.00 (1.41) | 79.63 | +1.37 | yes | 81.00 (1.41) |" in text
    assert "| another | 1 | 50.00 | – | – | – | 50.00 |" in text


def write_table(folder: Path, name: str, records: Sequence[ResultRecord[object]]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"key": f"{at:03d}", **asdict(record)}) for at, record in enumerate(records)]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_pages_are_made_from_their_tables_and_the_same_each_time(tmp_path: Path) -> None:
    kept, docs = tmp_path / "kept", tmp_path / "docs"
    write_table(kept, "links", [*runs("TGAT", [0.9, 0.92]), *runs("GAT", [0.8, 0.8])])
    pages = write_pages(kept, docs)
    assert [str(page.relative_to(docs)) for page in pages] == [
        "results.md", "results/some.md", "results/gate.md", "results/data.md",
    ]  # fmt: skip
    first = {file: file.read_bytes() for file in docs.rglob("*.*")}
    assert docs / "results" / "links-some-1.svg" in first
    write_pages(kept, docs)
    assert {file: file.read_bytes() for file in docs.rglob("*.*")} == first
    overview, mine = (page.read_text() for page in pages[:2])
    assert "- [some](results/some.md)" in overview
    assert "| TGAT | TGAT | 91.00 (1.41) |" in overview
    assert "(results/links-some-1.svg)" in overview
    assert "| TGAT | 2 | **91.00 (1.41)** |" in mine
    assert "| GAT | 2 | 80.00 (0.00) |" in mine
    assert "Made on a CPU (Some CPU); 4 min for 4 runs, by" in mine
    assert COMMAND in mine
    assert "(links-some-1.svg)" in mine
    assert [line for line in mine.splitlines() if line.startswith("#")] == [
        "# some",
        "## Link prediction",
        "### some 1",
    ]


def test_page_of_small_runs_has_every_table_and_figure(tmp_path: Path) -> None:
    """From runs to the page, at a size of seconds."""
    task, folder = circles(200), tmp_path / "results"
    base = Choice(width=8, time_width=8, layers=1, neighbours=5, epochs=1)
    kinds = [TimeEncodingKind.NONE, TimeEncodingKind.LOG]
    changed = [replace(base, width=16), *(replace(base, encoding=kind) for kind in kinds)]
    choices = [*changed, replace(base, sampling="uniform")]
    made_by = ResultOrigin("make it")
    small = LinkProtocol(ranked=10)
    fill(
        folder / "ablations",
        AblationReport,
        ablations.runs(task, choices, 2, folder / "ablations", small),
        origin=made_by,
    )
    looked_at = Run("small", lambda: attention.measure(task, base, 0))
    fill(folder / "attention", AttentionReport, [looked_at], origin=made_by)
    fill(folder / "statistics", Statistics, [Run("small", lambda: statistics(task))], origin=made_by)
    asked = ["time-encodings", "samplings", "sizes", "attention", "statistics"]
    text = filled("\n\n".join(f"{{{{ {name} }}}}" for name in asked), read_results(folder, folder))
    assert "| none | 2 | 50.00 (0.00) |" in text
    assert [f"\n| {row} | 2 |" in text for row in ("Bochner, log ω", "recent", "uniform", "8", "16")] == [True] * 5
    assert "| interactions | 200 |" in text
    figures = {file.name for file in folder.glob("*.svg")}
    assert figures == {"sizes-small.svg", "attention-small-1-0.svg", "interactions-over-time.svg"}
    assert all(f"({name})" in text for name in figures)


@pytest.mark.slow
def test_committed_pages_are_those_of_the_committed_tables(tmp_path: Path) -> None:
    write_pages(RESULTS, tmp_path)
    made = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*.*")}
    kept = [DOCS / "results.md", *(DOCS / "results").iterdir()]
    assert made == {file.relative_to(DOCS): file.read_bytes() for file in kept}


def test_commands_that_made_the_committed_tables_are_still_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for file in RESULTS.glob("*.jsonl") for line in file.read_text().splitlines()]
    made_by = {line["command"] for line in lines}
    assert len(made_by) > 20
    for command in made_by:
        for data in re.findall(r"\$DATA/(\w+)", command):
            (tmp_path / data).mkdir(exist_ok=True)
        program, name, *rest = command.removeprefix("python -m ").replace("$DATA", str(tmp_path)).split()
        assert program == "research"
        main.commands[name].make_context(name, rest)


def test_template_that_asks_for_what_there_is_not_is_refused() -> None:
    with pytest.raises(DataError, match="asks for 'nothing-such'; there are main-tables, verdict"):
        filled("{{ nothing-such }}", results())


def test_part_of_which_nothing_was_measured_is_left_out() -> None:
    template = "# Page\n\nProse.\n\n## Floors\n\nOf aims.\n\n{{ floors }}\n\n## Refit\n\nOf refits.\n\n{{ refit }}\n"
    rows = {"TGAT": label_runs("oulad", "TGAT", [0.8]), BASELINE: label_runs("oulad", BASELINE, [0.8])}
    made = label_results("oulad", rows, {"TGAT": Interval(0.0, -0.1, 0.1, 0.05, 1000)})
    text = filled(template, made)
    assert text.startswith("# Page\n\nProse.\n\n## Floors\n\nOf aims.\n\n| data |")
    assert "Refit" not in text
    assert filled(template, results()) == "# Page\n\nProse.\n"


def test_cells_of_a_table_may_hold_bars() -> None:
    assert table(["a", "b"], [["x|y", "1"]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"
