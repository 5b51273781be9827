"""The overview of all results: the main table of each data set, who wins, what renewal is worth, three figures."""

from research.baselines.hand_made import HandMade
from research.baselines.temporal import TemporalMethod
from research.experiments import link_prediction
from research.experiments.labels import BASELINE
from research.labels import QuestionPart
from research.mean_std import mean_std
from research.page import labels, link_tables
from research.page.labels import LabelTable, interval, label_tables
from research.page.link_tables import CLAIMED, OURS, LinkTable
from research.page.markdown import figure, table
from research.page.refit import over_all
from research.page.results import Results
from research.page.retraining import HEADS_ALONE, NETWORK, TREES, gain, retraining_tables
from research.page.verdict import verdict
from research.prequential import Policy
from stream_tgat.evaluation.link_prediction.rules import DestinationRecency, EdgeBank, PairRecency

MOST_ROWS = 6


def verdict_section(results: Results) -> str:
    """Where TGAT does not win, where it cannot be told, and where it wins."""
    found = [*link_tables.comparisons(results), *labels.comparisons(results)]
    return verdict(found) if found else ""


def main_tables_section(results: Results) -> str:
    """For each data set the table in which the row of TGAT that speaks validates best, with the best of each kind."""
    parts = []
    for name in results.measured():
        mine = results.of(name)
        tables = [
            *(_main(_validating_best(link_tables.link_tables(mine)))),
            *(_main_labels(_labels_validating_best(label_tables(mine)))),
        ]
        if tables:
            parts += [f"### {name}", _counted(mine), *tables]
    return "\n\n".join(part for part in parts if part)


def renewal_section(results: Results) -> str:
    """A row for each data set: what new models are worth, in points of AUC."""
    header = ("data", "TGAT retrained", "with a gate", "heads alone", "trees retrained", "refit")
    rows = []
    for each in retraining_tables(results):
        asked = [
            (NETWORK, Policy.SCHEDULE), (NETWORK, Policy.GATE), (HEADS_ALONE, Policy.SCHEDULE), (TREES, Policy.SCHEDULE)
        ]  # fmt: skip
        found = [each.over_all(maker, policy, pooled=False) for maker, policy in asked]
        refitted = over_all(results.of(each.task))
        gains = [gain(one.gain) if one else "" for one in found]
        where = f"[{each.task}](results/{each.task}.md#retraining)"
        rows.append([where, *gains, gain(refitted.gain) if refitted else ""])
    return table(header, rows) if rows else ""


def figures_section(results: Results) -> str:
    """Three: all methods on the link prediction that was measured last, what renewal is worth, what is attended to."""
    found = []
    for each in link_tables.link_tables(results)[-1:]:
        says = f"{each.task}: average precision and mean reciprocal rank of every method"
        found.append(figure(f"results/{link_tables.figure_file(each)}", says))
    for one in retraining_tables(results)[:1]:
        says = f"{one.task}: AUC over time of the first model and of retrained ones, and the gain"
        found.append(figure(f"results/retraining-{one.task}-1.svg", says))
    for record in results.attention[:1]:
        report = record.result
        says = f"{report.task}: attention against time span, and against how often a neighbour was met"
        found.append(figure(f"results/attention-{report.task}-{report.choice.layers}-{report.seed}.svg", says))
    return "\n\n".join(found)


def pages_section(results: Results) -> str:
    """A link to each page."""
    lines = [f"- [{name}](results/{name}.md)" for name in results.measured()]
    lines += [
        "- [gate](results/gate.md): how often a gate promotes a worse model, or a better one, simulated",
        "- [data](results/data.md): the data sets in numbers",
    ]
    return "\n".join(lines)


def _validating_best(tables: list[LinkTable]) -> LinkTable | None:
    ranked = [(link_tables.validated(each.reports(row)), each) for each in tables if (row := link_tables.speaker(each))]
    return max(ranked, key=lambda each: each[0])[1] if ranked else None


def _labels_validating_best(tables: list[LabelTable]) -> LabelTable | None:
    ranked = [(labels.validated(each.reports(row)), each) for each in tables if (row := labels.speaker(each))]
    return max(ranked, key=lambda each: each[0])[1] if ranked else None


def _main(each: LinkTable | None) -> list[str]:
    """The row of TGAT that speaks, the plain one, and the best of each other kind, by average precision."""
    if each is None:
        return []
    ours = [method for method in each.methods if method.startswith(OURS)]
    rows = list(dict.fromkeys([str(link_tables.speaker(each)), *([OURS] if OURS in ours else [])]))
    kinds = _kinds()
    for kind in dict.fromkeys(kinds.values()):
        others = [method for method in each.methods if method not in ours and kinds.get(method) == kind]
        if others:
            rows.append(max(others, key=lambda method: mean_std(each.values(method, "AP")).mean))
    lines = [
        [row, kinds.get(row, "TGAT"), *(str(mean_std(each.values(row, column))) for column in CLAIMED)] for row in rows
    ]
    return [f"Link prediction, {link_tables.place(each)}:", table(("best of its kind", "kind", *CLAIMED), lines)]


def _main_labels(each: LabelTable | None) -> list[str]:
    """The rows that are best on test, with boosted trees and the row of TGAT that speaks among them."""
    if each is None:
        return []
    means = {row: mean_std(report.mean_auc(QuestionPart.TEST) for report in each.reports(row)) for row in each.methods}
    best = sorted(means, key=lambda row: -means[row].mean)
    must = {BASELINE, str(labels.speaker(each))} & means.keys()
    kept = {*must, *[row for row in best if row not in must][: MOST_ROWS - len(must)]}
    lines = [
        [row, str(means[row]), interval(each.compared[row]) if row in each.compared else ""]
        for row in best
        if row in kept
    ]
    header = ("row", "mean AUC over heads", "less trees [95 % over users]")
    return [f"Predictions about users, {labels.place(each)}:", table(header, lines)]


def _counted(mine: Results) -> str:
    return "; ".join(
        f"{each.interactions:,} interactions of {each.nodes:,} nodes in {each.days:,.0f} days"
        for each in (record.result for record in mine.statistics)
    )


def _kinds() -> dict[str, str]:
    """Of methods of link prediction, by name."""
    found = {}
    for activity in (False, True):
        for method in link_prediction.methods(TemporalMethod(OURS, activity=activity)):
            match method:
                case EdgeBank() | DestinationRecency() | PairRecency():
                    kind = "rule"
                case HandMade():
                    kind = "hand-made features"
                case TemporalMethod():
                    kind = "graph network in time"
                case _:
                    kind = "one vector a node"
            found[method.name] = "TGAT" if method.name.startswith(OURS) else kind
    return found
