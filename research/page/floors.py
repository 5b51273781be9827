"""What was asked of TGAT before it was measured, on the page: figures to reach, and by how much they are missed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from research.labels import LabelReport, QuestionPart
from research.mean_std import MeanStd, mean_std
from research.page.labels import FIGURE, label_tables
from research.page.labels import speaker as label_speaker
from research.page.link_tables import LinkTable, link_tables, speaker
from research.page.markdown import table
from research.page.results import Results
from stream_tgat.evaluation.bootstrap import Interval

HEADER = ("data", "figure", "floor", "set by", "row of TGAT", "its value", "difference")


@dataclass(frozen=True)
class Floor:
    """A figure to reach. activity: by tables with activity features, or by those without   column: of link tables"""

    task: str
    activity: bool
    column: str
    value: float
    set_by: str


FLOORS = (
    Floor("collegemsg", False, "AP", 0.93, "aim"),
    Floor("wikipedia", False, "AP", 0.96, "aim"),
    Floor("collegemsg", True, "AP", 0.970, "aim"),
    Floor("collegemsg", True, "AP", 0.973, "boosted trees"),
    Floor("collegemsg", True, "AP historical", 0.844, "boosted trees"),
    Floor("collegemsg", True, "MRR", 0.817, "boosted trees"),
    Floor("wikipedia", True, "AP", 0.990, "aim"),
    Floor("wikipedia", True, "AP", 0.994, "boosted trees"),
    Floor("wikipedia", True, "AP historical", 0.885, "boosted trees"),
    Floor("wikipedia", True, "MRR", 0.907, "boosted trees"),
)


@dataclass(frozen=True)
class LabelFloor:
    """A figure to reach by predictions about users. of: it, from a row's runs and what they have over boosted trees"""

    task: str
    figure: str
    value: float
    of: Callable[[Sequence[LabelReport], Interval], MeanStd]


LABEL_FLOORS = (
    LabelFloor("oulad", FIGURE, 0.82, lambda runs, _: mean_std(run.mean_auc(QuestionPart.TEST) for run in runs)),
    LabelFloor("groceries", f"{FIGURE}, less trees", 0.0, lambda _, less: mean_std([less.estimate])),
    LabelFloor("groceries", f"{FIGURE}, less trees, lower bound", -0.01, lambda _, less: mean_std([less.low])),
)


def floors_section(results: Results) -> str:
    """A line for each floor and table that it speaks of; what is missed comes first."""
    found = [
        (ours.mean - floor.value, [each.title, floor.column, f"{100 * floor.value:.1f}", floor.set_by, row, str(ours)])
        for floor in FLOORS
        for each in link_tables(results)
        if _speaks_of(floor, each) and (row := speaker(each))
        for ours in [mean_std(each.values(row, floor.column))]
    ]
    found += [
        (ours.mean - floor.value, [each.title, floor.figure, f"{100 * floor.value:.1f}", "aim", row, str(ours)])
        for floor in LABEL_FLOORS
        for each in label_tables(results)
        if each.task == floor.task and (row := label_speaker(each))
        for ours in [floor.of(each.reports(row), each.compared[row])]
    ]
    lines = [[*cells, f"{100 * off:+.2f}"] for off, cells in sorted(found, key=lambda each: each[0] >= 0)]
    return table(HEADER, lines) if lines else ""


def _speaks_of(floor: Floor, each: LinkTable) -> bool:
    return each.task == floor.task and ("--activity" in each.options.split()) == floor.activity
