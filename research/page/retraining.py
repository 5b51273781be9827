"""Retraining on the page: for each data set what it gains over the first model for ever, step by step and in all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from research.experiments.queue import ResultRecord
from research.page.canvas import BLUE, GREEN, GREY, ORANGE, panels
from research.page.markdown import figure, origin, table
from research.page.results import Results, place_of
from research.prequential import AgeReport, Policy, StepReport
from stream_tgat.evaluation.bootstrap import Interval

NETWORK, HEADS_ALONE, TREES = "TGAT", "TGAT, first encoder", "Trees"
"""Makers of models, by the names that their reports have."""


@dataclass(frozen=True)
class RetrainingTable:
    """Results of one data set and one command."""

    task: str
    records: tuple[ResultRecord[StepReport], ...]
    ages: tuple[AgeReport, ...]

    def of(self, maker: str, policy: Policy) -> list[StepReport]:
        """The reports of single steps, in their order."""
        found = [each for each in self._all(maker, policy) if len(each.steps) == 1 and not each.pooled]
        return sorted(found, key=lambda each: each.steps)

    def over_all(self, maker: str, policy: Policy, *, pooled: bool) -> StepReport | None:
        """The report of all steps after the first, questions apart by step or together."""
        found = [each for each in self._all(maker, policy) if each.steps[0] == 1 and each.pooled == pooled]
        return max(found, key=lambda each: len(each.steps), default=None)

    def rows(self) -> list[tuple[str, Policy]]:
        """Makers and policies, TGAT's first."""
        every = dict.fromkeys((record.result.maker, record.result.policy) for record in self.records)
        return sorted(every, key=lambda row: (row[0], list(Policy).index(row[1])))

    def _all(self, maker: str, policy: Policy) -> list[StepReport]:
        reports = [record.result for record in self.records]
        return [each for each in reports if (each.maker, each.policy) == (maker, policy)]


def retraining_tables(results: Results) -> list[RetrainingTable]:
    """All of them, data sets in the page's order."""
    groups: dict[tuple[str, str], list[ResultRecord[StepReport]]] = {}
    for record in results.retraining:
        groups.setdefault((record.result.task, record.command), []).append(record)
    made = []
    for (task, command), records in sorted(groups.items(), key=lambda each: (place_of(each[0][0]), each[0][1])):
        ages = [record.result for record in results.ages if (record.result.task, record.command) == (task, command)]
        made.append(RetrainingTable(task, tuple(records), tuple(ages)))
    return made


def retraining_section(results: Results) -> str:
    """Every data set with its figure, its tables and its command."""
    parts = []
    for number, each in enumerate(retraining_tables(results), 1):
        file = f"retraining-{each.task}-{number}.svg"
        draw(each, results, file)
        untimed = [replace(record, seconds=math.nan) for record in each.records]  # of adding up, not of training
        parts += [
            summary(each),
            figure(file, f"{each.task}: AUC over time of the first model and of retrained ones, and the gain"),
            steps_table(each),
            policies_table(each),
            ages_table(each),
            origin(untimed),
        ]
    return "\n\n".join(part for part in parts if part)


def summary(each: RetrainingTable) -> str:
    """What is claimed: a gain or a loss only where its interval leaves zero out."""
    says = []
    for maker, policy in each.rows():
        found = each.over_all(maker, policy, pooled=False)
        if found is None or policy is Policy.FIRST:
            continue
        less = found.gain
        verb = "gains" if less.low > 0 else "loses" if less.high < 0 else "neither gains nor loses for certain"
        says.append(f"{maker}, {policy}: {verb}, {gain(less)}")
    return f"Points of AUC over the first for ever, mean over heads and later steps. {'; '.join(says)}." if says else ""


def steps_table(each: RetrainingTable) -> str:
    """A row for each step: what was asked, what was known, and how the policies do; means over heads."""
    first, new = each.of(NETWORK, Policy.FIRST), each.of(NETWORK, Policy.SCHEDULE)
    columns = {
        "gated": each.of(NETWORK, Policy.GATE),
        "heads alone": each.of(HEADS_ALONE, Policy.SCHEDULE),
        "trees": each.of(TREES, Policy.SCHEDULE),
    }
    trees = each.of(TREES, Policy.FIRST)
    header = ["from day", "questions", "positive", "answers known", "CPU s", "first for ever", "retrained", "gain",
              *(f"gain, {name}" for name, reports in columns.items() if reports), "trees, first"]  # fmt: skip
    rows = []
    for at, (old, now) in enumerate(zip(first, new, strict=True)):
        asked = sum(head.count for head in now.heads)
        positive = sum(head.count * head.base_rate for head in now.heads if head.count) / max(asked, 1)
        rows.append(
            [
                f"{now.days[0]:.0f}",
                f"{asked:,}",
                f"{100 * positive:.1f} %",
                f"{now.known:,}",
                f"{now.cpu_s:.0f}",
                with_error(old.auc),
                with_error(now.auc),
                gain(now.gain),
                *(gain(reports[at].gain) for reports in columns.values() if reports),
                with_error(trees[at].auc) if trees else "",
            ]
        )
    return table(header, rows)


def policies_table(each: RetrainingTable) -> str:
    """A row for each maker and policy, over all steps but the first: means over steps, and all questions as one."""
    heads = [head.head for head in each.records[0].result.heads]
    header = ["after the first step", "runs", "mean AUC", "gain", "pooled gain"]
    header += [name for head in heads for name in (f"AUC {head}", f"AP {head}")]
    rows = []
    for maker, policy in each.rows():
        mean, pooled = (each.over_all(maker, policy, pooled=pooled) for pooled in (False, True))
        if mean is None or pooled is None:
            continue
        cells = [f"{100 * figure:.2f}" for head in pooled.heads for figure in (head.auc, head.average_precision)]
        name = f"{maker}: {policy}"
        rows.append([name, str(mean.seeds), with_error(mean.auc), gain(mean.gain), gain(pooled.gain), *cells])
    return table(header, rows)


def ages_table(each: RetrainingTable) -> str:
    """What models lose by growing old, makers side by side."""
    makers = sorted({report.maker for report in each.ages})
    less = {(report.maker, report.age): report.less for report in each.ages}
    rows = [
        [str(age), *(gain(less[maker, age]) if (maker, age) in less else "" for maker in makers)]
        for age in sorted({report.age for report in each.ages})
    ]
    return table(["steps old", *(f"{maker}, less a new one" for maker in makers)], rows) if rows else ""


def draw(each: RetrainingTable, results: Results, file: str) -> None:
    """Left: AUC of each step, mean over heads; right: the gain over the first model. Bars: 95 % over users."""
    with panels(results.folder / file, 1, 2, 9.0, 3.3) as (left, right):
        lines = [
            (NETWORK, Policy.FIRST, GREY, "TGAT, first", -0.12),
            (NETWORK, Policy.SCHEDULE, BLUE, "TGAT, retrained", 0.0),
            (TREES, Policy.SCHEDULE, ORANGE, "trees, retrained", 0.12),
        ]
        for maker, policy, color, name, aside in lines:
            _line(left, [(report, report.auc) for report in each.of(maker, policy)], color, name, aside)
        gains = [
            (NETWORK, Policy.SCHEDULE, BLUE, "TGAT", -0.12),
            (HEADS_ALONE, Policy.SCHEDULE, GREEN, "its heads alone", 0.0),
            (TREES, Policy.SCHEDULE, ORANGE, "trees", 0.12),
        ]
        for maker, policy, color, name, aside in gains:
            later = [report for report in each.of(maker, policy) if report.steps[0] > 0]
            _line(right, [(report, report.gain) for report in later], color, name, aside)
        right.axhline(0.0, color="black", linewidth=0.8, linestyle=":")
        left.set_ylabel("AUC, mean of heads, %")
        right.set_ylabel("gain over the first for ever, points")
        for axis in (left, right):
            axis.set_xlabel("day at which the step begins")
            axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.2)  # clear of all bars


def _line(axis: object, found: Sequence[tuple[StepReport, Interval]], color: str, name: str, aside: float) -> None:
    """Estimates with their intervals. aside: shift, in steps, so that bars stay apart"""
    if not found:
        return
    days = [report.days[0] for report, _ in found]
    length = (days[-1] - days[0]) / max(len(days) - 1, 1)
    errors = [[each.estimate - each.low for _, each in found], [each.high - each.estimate for _, each in found]]
    axis.errorbar(  # type: ignore[attr-defined]
        [day + aside * length for day in days],
        [100 * each.estimate for _, each in found],
        yerr=[[100 * max(value, 0.0) if value == value else 0.0 for value in side] for side in errors],
        fmt="o-", ms=4, capsize=2, color=color, label=name,
    )  # fmt: skip


def gain(found: Interval) -> str:
    """A difference with its interval, in points of a hundred."""
    if math.isnan(found.estimate):
        return "–"
    return f"{100 * found.estimate:+.2f} [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"


def with_error(found: Interval) -> str:
    """A figure with its standard error, in per cent."""
    return "–" if math.isnan(found.estimate) else f"{100 * found.estimate:.2f} ± {100 * found.std_error:.2f}"
