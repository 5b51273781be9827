"""What was asked of TGAT before it was measured, on the page: figures to reach, and by how much they are missed."""

from dataclasses import dataclass

from stream_tgat.evaluation.experiments.page.links import LinkTable, link_tables, speaker
from stream_tgat.evaluation.experiments.page.markdown import table
from stream_tgat.evaluation.experiments.page.results import Results
from stream_tgat.evaluation.uncertainty import mean_std

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


def floors_section(results: Results) -> str:
    """A line for each floor and table that it speaks of; what is missed comes first."""
    found = [
        (ours.mean - floor.value, [each.title, floor.column, f"{100 * floor.value:.1f}", floor.set_by, row, str(ours)])
        for floor in FLOORS
        for each in link_tables(results)
        if _speaks_of(floor, each) and (row := speaker(each))
        for ours in [mean_std(each.values(row, floor.column))]
    ]
    lines = [[*cells, f"{100 * off:+.2f}"] for off, cells in sorted(found, key=lambda each: each[0] >= 0)]
    return table(HEADER, lines) if lines else "Not measured yet."


def _speaks_of(floor: Floor, each: LinkTable) -> bool:
    return each.task == floor.task and ("--activity" in each.options.split()) == floor.activity
