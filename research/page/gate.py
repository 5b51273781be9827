"""The gate on the page: how often each rule promotes what, and what becomes of many retrainings in a row."""

from collections.abc import Iterable

from research.experiments.gate import CHOSEN, RULES, GateReport, GateRow
from research.page.canvas import BLUE, GREEN, GREY, ORANGE, panels
from research.page.markdown import figure, origin, table
from research.page.results import Results

COLORS = dict(zip(RULES, (GREY, GREEN, ORANGE, BLUE), strict=True))


def gate_section(results: Results) -> str:
    """Every simulation with its tables, its figure and its command."""
    parts = []
    for number, record in enumerate(results.gates):
        report, file = record.result, f"gate-{number}.svg"
        draw(report, results, file)
        parts += [
            (
                f"{report.gates:,} gates a row, margin {100 * report.margin:g} points, confidence "
                f"{report.confidence:.0%}. Shares of the gates that promote, in per cent."
            ),
            figure(file, "share of gates that promote, against the standard error, for better and worse models"),
            rows_table(report.rows),
            "Answers that are drawn: one head, a tenth of the answers true, two of each user.",
            answers_table(report),
            (
                "Retrainings in a row, 24 in each of as many runs, five figures. Losses are against the best model "
                "that served, in points."
            ),
            sequences_table(report),
            origin([record]),
        ]
    return "\n\n".join(parts)


def rows_table(rows: Iterable[GateRow]) -> str:
    """A row for each truth and error."""
    header = ("true gains, points", "error of each, points", *RULES)
    return table(
        header,
        (
            [_gains(row.truth), f"{100 * row.errors[0]:.1f}", *(_share(row.promoted[name]) for name in RULES)]
            for row in rows
        ),
    )


def answers_table(report: GateReport) -> str:
    """A row for each number of answers and truth."""
    header = ("answers", "true gain, points", "error by the bootstrap", "spread of what was measured", *RULES)
    return table(
        header,
        (
            [
                f"{row.answers:,}",
                f"{100 * row.truth:+.0f}",
                f"{100 * row.error:.2f}",
                f"{100 * row.spread:.2f}",
                *(_share(row.promoted[name]) for name in RULES),
            ]
            for row in report.answers
        ),
    )


def sequences_table(report: GateReport) -> str:
    """A row for each course, error and rule."""
    header = (
        "new models are",
        "error of each, points",
        "rule",
        "promotions",
        "loss in the end",
        "worst in 95 %",
        "gain in the end",
    )
    return table(
        header,
        (
            [
                row.course,
                f"{100 * row.error:.1f}",
                row.rule,
                f"{row.promotions:.1f}",
                f"{100 * row.loss:.2f}",
                f"{100 * row.worst:.2f}",
                f"{100 * row.quality:+.2f}",
            ]
            for row in report.sequences
        ),
    )


def draw(report: GateReport, results: Results, file: str) -> None:
    """Models worse by the margin in all figures, worse by ten points in one, and as good in all."""
    shown = {
        "all five worse by the margin": (-report.margin,) * 5,
        "one of five worse by 10 points": (-0.1, 0.0, 0.0, 0.0, 0.0),
        "all five as good": (0.0,) * 5,
    }
    with panels(results.folder / file, 1, 3, 9.0, 3.0, one_y=True) as axes:
        for axis, (title, truth) in zip(axes, shown.items(), strict=True):
            rows = [row for row in report.rows if row.truth == truth]
            for name, color in COLORS.items():
                axis.plot(
                    [100 * row.errors[0] for row in rows],
                    [100 * row.promoted[name] for row in rows],
                    "o-", ms=4, color=color, label=name, linewidth=2.0 if name == CHOSEN else 1.0,
                )  # fmt: skip
            axis.set_xscale("log")
            axis.set_xticks([100 * row.errors[0] for row in rows], [f"{100 * row.errors[0]:g}" for row in rows])
            axis.minorticks_off()
            axis.set_title(title)
            axis.set_xlabel("standard error of a figure, points")
        axes[0].set_ylabel("promoted, %")
        axes[0].legend(loc="upper left", fontsize=8)


def _gains(truth: tuple[float, ...]) -> str:
    """All alike, or the one that is not."""
    if len(set(truth)) == 1:
        return f"{100 * truth[0]:+.0f} in {'all of ' if len(truth) > 1 else ''}{len(truth)}"
    return f"{100 * truth[0]:+.0f} in 1 of {len(truth)}"


def _share(value: float) -> str:
    return f"{100 * value:.1f}"
