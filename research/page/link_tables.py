"""Link prediction on the page: one table and one figure for each data set and set of options, and who wins."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from research.baselines.temporal import TemporalMethod
from research.experiments import link_prediction
from research.experiments.options import DATA
from research.experiments.queue import ResultRecord
from research.mean_std import mean_std
from research.page.canvas import BLUE, GREY, panels
from research.page.markdown import figure, origin, table
from research.page.results import Results, place_of
from research.page.verdict import ComparedRow, RowComparison, differ
from stream_tgat.evaluation.link_prediction import Group, LinkReport, MethodReport

OURS = "TGAT"
"""Rows whose names begin so are this package's."""

CLAIMED = ("AP", "AP unseen", "AP historical", "MRR")
"""Columns about which the page says who wins."""


@dataclass(frozen=True)
class LinkTable:
    """Results of one data set and one command: the rows of one table. number: among those of the data set, from 1"""

    task: str
    command: str
    records: tuple[ResultRecord[MethodReport], ...]
    number: int

    @property
    def options(self) -> str:
        """What the command was given beside its data; nothing for the plain one."""
        return self.command.partition(f"{DATA}/{self.task}")[2].strip()

    @property
    def title(self) -> str:
        """For headings and sentences."""
        return f"{self.task} {self.number}"

    @property
    def methods(self) -> list[str]:
        """The names of its rows, in the order of the package's own table."""
        there = dict.fromkeys(record.result.method for record in self.records)
        known = _known_order()
        return sorted(there, key=lambda name: known.get(name, len(known)))

    def reports(self, method: str) -> list[MethodReport]:
        """The runs of a row."""
        return [record.result for record in self.records if record.result.method == method]

    def values(self, method: str, column: str) -> list[float]:
        """A figure on test of each run of a row, without those in which it is undefined."""
        found = [link_prediction.COLUMNS[column](report.test) for report in self.reports(method)]
        return [value for value in found if np.isfinite(value)]


def link_tables(results: Results) -> list[LinkTable]:
    """All tables, data sets in the page's order, plain ones first."""
    groups: dict[tuple[str, str], list[ResultRecord[MethodReport]]] = {}
    for record in results.links:
        groups.setdefault((record.result.test.task, record.command), []).append(record)
    tables = [LinkTable(task, command, tuple(records), 0) for (task, command), records in groups.items()]
    counted: Counter[str] = Counter()
    numbered = []
    for each in sorted(tables, key=lambda each: (place_of(each.task), each.options)):
        counted[each.task] += 1
        numbered.append(replace(each, number=counted[each.task]))
    return numbered


def links_section(results: Results) -> str:
    """Every table with its figure and its command."""
    parts = []
    for each in link_tables(results):
        file = figure_file(each)
        draw(each, results, file)
        given = f"With `{each.options}`" if each.options else "Without options"
        heading = f"### {each.title}\n\n{given}: {questions(each)}. In per cent, mean (std) over runs."
        says = f"{each.task}: average precision and mean reciprocal rank of every method"
        parts += [heading, rows(each), figure(file, says), origin(each.records)]
    return "\n\n".join(parts)


def figure_file(each: LinkTable) -> str:
    """The name of a table's figure."""
    return f"links-{each.task}-{each.number}.svg"


def questions(each: LinkTable) -> str:
    """How many there are, how many are ranked, and how many are easy for reasons of their own."""
    test = each.records[0].result.test
    count, ranked = test.pair().count, test.rank().count
    both = test.pair(group=Group.BOTH_UNSEEN).count
    ranking = "all of them ranked" if ranked == count else f"{ranked:,} of them, evenly spread over time, ranked"
    return (
        f"{count:,} test interactions, {ranking}, {both:,} with both nodes unseen; "
        f"{100 * test.never_seen:.1f} % of the random negatives were never seen"
    )


def rows(each: LinkTable) -> str:
    """The table itself; the best of each column in bold."""
    columns = link_prediction.COLUMNS
    best = {column: _best(each, column, each.methods) for column in columns}
    lines = []
    for method in each.methods:
        cells = [_cell(each.values(method, column), best[column] == method) for column in columns]
        lines.append([method, str(len(each.reports(method))), *cells])
    return table(["method", "runs", *columns], lines)


def comparisons(results: Results) -> list[RowComparison]:
    """TGAT against the best other row in every table, on what is claimed."""
    return [found for each in link_tables(results) for column in CLAIMED if (found := compare(each, column))]


def compare(each: LinkTable, column: str) -> RowComparison | None:
    """TGAT against the best other row; None where one of them is missing.

    Of several rows of TGAT the one that validates best speaks; it meets whoever is best on test among the others.
    """
    speaks = speaker(each)
    others = [method for method in each.methods if not method.startswith(OURS) and each.values(method, column)]
    if speaks is None or not others:
        return None
    rival = _best(each, column, others)
    one, two = each.values(speaks, column), each.values(rival, column)
    if not one:
        return None
    return RowComparison(place(each), column, ComparedRow(speaks, one), ComparedRow(rival, two), differ(one, two))


def place(each: LinkTable) -> str:
    """A link from the overview to a table."""
    return f"[{each.title}](results/{each.task}.md#{each.title.replace(' ', '-')})"


def speaker(each: LinkTable) -> str | None:
    """Of the rows of TGAT, the one that validates best; None where there is none."""
    ours = [method for method in each.methods if method.startswith(OURS)]
    return max(ours, key=lambda method: validated(each.reports(method)), default=None)


def draw(each: LinkTable, results: Results, file: str) -> None:
    """A dot with its error for each row, in three panels."""
    shown = ("AP", "AP historical", "MRR")
    names = each.methods[::-1]
    with panels(results.folder / file, 1, len(shown), 9.0, 0.8 + 0.22 * len(names), one_y=True) as axes:
        for axis, column in zip(axes, shown, strict=True):
            for place, name in enumerate(names):
                found = mean_std(each.values(name, column))
                color = BLUE if name.startswith(OURS) else GREY
                error = 100 * found.std if found.count > 1 else None
                axis.errorbar(100 * found.mean, place, xerr=error, fmt="o", ms=4.5, color=color, capsize=2)
            if each.values(OURS, column):
                axis.axvline(100 * mean_std(each.values(OURS, column)).mean, color=BLUE, lw=0.8, linestyle=":")
            axis.set_title(f"{column}, %")
            axis.set_yticks(range(len(names)), names)


def _cell(values: Sequence[float], best: bool) -> str:
    if not values:
        return "–"
    return f"**{mean_std(values)}**" if best else str(mean_std(values))


def _best(each: LinkTable, column: str, among: Sequence[str]) -> str:
    """The row with the highest mean."""
    means = {method: mean_std(each.values(method, column)).mean for method in among}
    return max(means, key=lambda method: means[method] if np.isfinite(means[method]) else -1.0)


def validated(reports: Sequence[MethodReport]) -> float:
    """Mean average precision on validation."""
    validation: list[LinkReport] = [report.validation for report in reports]
    return float(np.nanmean([report.pair().average_precision for report in validation]))


def _known_order() -> dict[str, int]:
    """Places of rows by name: of the plain table, and of that with activity."""
    rows = [
        method.name
        for activity in (False, True)
        for method in link_prediction.methods(TemporalMethod(OURS, activity=activity))
    ]
    return {name: place for place, name in enumerate(dict.fromkeys(rows))}
