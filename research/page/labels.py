"""Predictions about users on the page: one table for each data set and set of options, and who wins."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from research.experiments.labels import BASELINE
from research.experiments.queue import ResultRecord
from research.labels import LabelReport, QuestionPart
from research.mean_std import mean_std
from research.page.markdown import origin, table
from research.page.results import Results, place_of
from research.page.verdict import ComparedRow, RowComparison
from stream_tgat.evaluation.bootstrap import Interval

OURS = "TGAT"
FIGURE = "mean AUC over heads"


@dataclass(frozen=True)
class LabelTable:
    """Results of one data set and one command. number: among those of the data set, from 1"""

    task: str
    command: str
    records: tuple[ResultRecord[LabelReport], ...]
    compared: dict[str, Interval]
    number: int

    @property
    def options(self) -> str:
        """What the command was given beside its data; nothing for the plain one."""
        _, _, given = self.command.partition(" labels ")
        return re.sub(r"--folder \S+", "", given.partition(" ")[2]).strip()

    @property
    def title(self) -> str:
        """For headings and sentences."""
        return f"{self.task} labels {self.number}"

    @property
    def methods(self) -> list[str]:
        """The names of its rows, as they were made."""
        return list(dict.fromkeys(record.result.method for record in self.records))

    def reports(self, method: str) -> list[LabelReport]:
        """The runs of a row."""
        return [record.result for record in self.records if record.result.method == method]


def label_tables(results: Results) -> list[LabelTable]:
    """All tables, data sets in the page's order; boosted trees, which know no options, are in all of a data set."""
    groups: dict[tuple[str, str], list[ResultRecord[LabelReport]]] = {}
    for record in results.labels:
        groups.setdefault((record.result.task, record.command), []).append(record)
    trees = [record for record in results.labels if record.result.method == BASELINE]
    for (task, _), group in groups.items():
        group[:] = [
            *(record for record in group if record.result.method != BASELINE),
            *(record for record in trees if record.result.task == task),
        ]
    compared = {
        key: {each.result.method: each.result.less for each in results.label_comparisons
              if (each.result.task, each.command) == key}
        for key in groups
    }  # fmt: skip
    made = [LabelTable(*key, tuple(records), compared[key], 0) for key, records in groups.items()]
    counted: Counter[str] = Counter()
    numbered = []
    for each in sorted(made, key=lambda each: (place_of(each.task), each.command)):
        counted[each.task] += 1
        numbered.append(replace(each, number=counted[each.task]))
    return numbered


def labels_section(results: Results) -> str:
    """Every table with its command."""
    parts = []
    for each in label_tables(results):
        heads = each.records[0].result.heads
        asked = ", ".join(
            f"{head.head} {head.test.count:,} ({100 * head.test.base_rate:.1f} % positive)" for head in heads
        )
        says = "in per cent, mean (std) over runs, ± standard error over users"
        given = f"With `{each.options}`" if each.options else "Without options"
        parts += [f"### {each.title}\n\n{given}. Test questions: {asked}; {says}.", rows(each), origin(each.records)]
    return "\n\n".join(parts)


def rows(each: LabelTable) -> str:
    """The table itself."""
    heads = [head.head for head in each.records[0].result.heads]
    names = [name for head in heads for name in (f"AUC {head}", f"AP {head}")]
    lines = []
    for method in each.methods:
        mine = each.reports(method)
        cells = []
        for at in range(len(heads)):
            error = mine[0].heads[at].test.auc.std_error
            area = mean_std(report.heads[at].test.auc.estimate for report in mine)
            cells += [f"{area} ± {100 * error:.2f}",
                      str(mean_std(report.heads[at].test.average_precision for report in mine))]  # fmt: skip
        cells.append(str(mean_std(report.mean_auc(QuestionPart.TEST) for report in mine)))
        less = each.compared.get(method)
        cells.append(interval(less) if less else "")
        lines.append([method, str(len(mine)), *cells])
    return table(["method", "runs", *names, "mean AUC", "less trees [95 % over users]"], lines)


def comparisons(results: Results) -> list[RowComparison]:
    """TGAT against boosted trees on the same past, where their difference is known.

    Of several rows of TGAT the one that validates best speaks.
    """
    return [found for each in label_tables(results) if (found := compare(each)) is not None]


def compare(each: LabelTable) -> RowComparison | None:
    """TGAT against boosted trees in one table; None where one of them is missing."""
    speaks = speaker(each)
    trees = [report.mean_auc(QuestionPart.TEST) for report in each.reports(BASELINE)]
    if speaks is None or not trees:
        return None
    return RowComparison(
        place(each),
        FIGURE,
        ComparedRow(speaks, [report.mean_auc(QuestionPart.TEST) for report in each.reports(speaks)]),
        ComparedRow(BASELINE, trees),
        certain=not each.compared[speaks].low <= 0.0 <= each.compared[speaks].high,
    )


def place(each: LabelTable) -> str:
    """A link from the overview to a table."""
    return f"[{each.title}](results/{each.task}.md#{each.title.replace(' ', '-')})"


def speaker(each: LabelTable) -> str | None:
    """Of the rows of TGAT that were compared with boosted trees, the one that validates best; None for none."""
    ours = [method for method in each.methods if method.startswith(OURS) and method in each.compared]
    return max(ours, key=lambda method: validated(each.reports(method)), default=None)


def validated(reports: Sequence[LabelReport]) -> float:
    """Mean AUC over heads on validation."""
    return float(np.mean([report.mean_auc(QuestionPart.VALIDATION) for report in reports]))


def interval(less: Interval) -> str:
    """A difference with its interval, in points of a hundred."""
    return f"{100 * less.estimate:+.2f} [{100 * less.low:+.2f}, {100 * less.high:+.2f}]"
