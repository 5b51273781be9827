"""Ablations on the page: tables of time encodings and samplings, and a figure of sizes."""

from collections.abc import Callable, Sequence

from research.experiments.ablations import AblationReport, Series, series_of
from research.experiments.queue import ResultRecord
from research.mean_std import MeanStd, mean_std
from research.page.canvas import BLUE, ORANGE, panels
from research.page.markdown import figure, origin, table
from research.page.results import Results, place_of
from stream_tgat.evaluation.link_prediction import Group, NegativeKind

FIGURES: dict[str, Callable[[AblationReport], float]] = {
    "AP": lambda r: r.test.pair().average_precision,
    "AP unseen": lambda r: r.test.pair(group=Group.UNSEEN).average_precision,
    "AP historical": lambda r: r.test.pair(NegativeKind.HISTORICAL).average_precision,
    "MRR": lambda r: r.test.rank().mrr,
}

NAMES = {
    "encoding": "time encoding",
    "sampling": "sampling",
    "width": "D, width of embeddings",
    "time_width": "T, width of the time encoding",
    "attention_heads": "attention heads",
    "layers": "layers",
}
"""Fields of a choice, as headings call them."""

SIZES = ("width", "time_width", "attention_heads", "layers")


def encodings_section(results: Results) -> str:
    """Time encodings."""
    return _tables(results, "encoding")


def samplings_section(results: Results) -> str:
    """Ways to choose neighbours."""
    return _tables(results, "sampling")


def sizes_section(results: Results) -> str:
    """Widths, heads and layers: a figure for each data set, and the numbers below it."""
    reports = [record.result for record in results.ablations]
    parts = []
    for task in sorted({report.test.task for report in reports}, key=place_of):
        mine = [report for report in reports if report.test.task == task]
        series = [each for varied in SIZES for each in series_of(mine, varied)]
        if series:
            file = f"sizes-{task}.svg"
            draw(series, results, file)
            tables = [_table(each) for each in series]
            used = _records_of(results, [report for each in series for rs in each.reports.values() for report in rs])
            parts += [figure(file, f"{task}: average precision by size"), *tables, origin(used)]
    return "\n\n".join(parts)


def draw(series: Sequence[Series], results: Results, file: str) -> None:
    """Average precision against each size, mean and standard deviation: random negatives and historical ones."""
    with panels(results.folder / file, 1, len(series), 2.6 * len(series) + 0.6, 2.7, one_y=True) as axes:
        for axis, each in zip(axes, series, strict=True):
            for name, color in (("AP", BLUE), ("AP historical", ORANGE)):
                found = [mean_std(map(FIGURES[name], reports)) for reports in each.reports.values()]
                error = [100 * one.std if one.count > 1 else 0.0 for one in found]
                axis.errorbar(
                    [int(value) for value in each.reports], [100 * one.mean for one in found], yerr=error,
                    fmt="o-", ms=4, capsize=2, color=color, label=name,
                )  # fmt: skip
            axis.set_xticks([int(value) for value in each.reports])
            axis.set_xlabel(NAMES[each.varied])
        axes[0].set_ylabel("%")
        axes[-1].legend()


def _tables(results: Results, varied: str) -> str:
    series = sorted(
        series_of([record.result for record in results.ablations], varied), key=lambda each: place_of(each.task)
    )
    parts = []
    for each in series:
        used = _records_of(results, [report for reports in each.reports.values() for report in reports])
        parts += [_table(each), origin(used)]
    return "\n\n".join(parts)


def _table(each: Series) -> str:
    header = [NAMES[each.varied], "runs", *FIGURES, "epochs", "CPU s per epoch"]
    rows = []
    for value, reports in each.reports.items():
        figures = [str(mean_std(map(figure, reports))) for figure in FIGURES.values()]
        epochs, seconds = (_plain(mean_std(vs)) for vs in zip(*((r.epochs, r.epoch_s) for r in reports), strict=True))
        rows.append([value.replace("_", " "), str(len(reports)), *figures, epochs, seconds])
    return table(header, rows)


def _records_of(results: Results, reports: Sequence[AblationReport]) -> list[ResultRecord[AblationReport]]:
    wanted = {id(report) for report in reports}
    return [record for record in results.ablations if id(record.result) in wanted]


def _plain(found: MeanStd) -> str:
    return f"{found.mean:.1f}"
