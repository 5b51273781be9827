"""What trained models attend to, on the page: one figure for each data set."""

from research.experiments.attention import AttentionReport, Recurrence
from research.page.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, panels
from research.page.markdown import figure, origin
from research.page.results import Results, place_of

UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "month": 2_629_800.0, "year": 31_557_600.0}

TALLEST = 0.99
"""Share of the dots that are drawn; the few above would flatten the others."""


def attention_section(results: Results) -> str:
    """Every analysed model with its figure and its command."""
    parts = []
    for record in sorted(results.attention, key=lambda each: place_of(each.result.task)):
        report = record.result
        file = f"attention-{report.task}-{report.choice.layers}-{report.seed}.svg"
        draw(report, results, file)
        layers = "1 layer" if report.choice.layers == 1 else f"the last of {report.choice.layers} layers"
        says = f"{report.task}: attention against time span, and against how often a neighbour was met"
        heading = f"{layers[0].upper()}{layers[1:]}, test AP {100 * report.average_precision:.1f}."
        parts += [heading, figure(file, says), origin([record])]
    return "\n\n".join(parts)


def draw(report: AttentionReport, results: Results, file: str) -> None:
    """Left: relative weights against time spans with loess; right: against recurrence, one line a target time."""
    with panels(results.folder / file, 1, 2, 9.0, 3.4) as (left, right):
        left.scatter(report.spans, report.relative, s=5, color=GREY, alpha=0.35, linewidths=0)
        left.plot(report.curve_spans, report.curve, color=BLUE, linewidth=2, label="loess")
        left.axhline(1.0, color="black", linewidth=0.8, linestyle=":", label="constant weights")
        left.set_xscale("log")
        low, high = max(min(report.spans), 1.0), max(report.spans)
        ticks = {name: seconds for name, seconds in UNITS.items() if low <= seconds <= high}
        left.set_xticks(list(ticks.values()), list(ticks), minor=False)
        left.minorticks_off()
        left.set_xlim(low, high)
        left.set_ylim(0, 1.05 * sorted(report.relative)[int(TALLEST * (len(report.relative) - 1))])
        left.set_xlabel("time since the interaction with the neighbour")
        left.set_ylabel("attention weight × neighbours")
        left.legend()
        for color, each in zip((BLUE, ORANGE, GREEN, PURPLE), report.recurrences, strict=False):
            right.errorbar(
                range(len(each.met)), each.relative, yerr=[0.0 if error != error else error for error in each.error],
                fmt="o-", ms=4, capsize=2, color=color, label=f"day {each.day:.0f}",
            )  # fmt: skip
        longest = max(report.recurrences, key=lambda each: len(each.met))
        right.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
        right.set_xticks(range(len(longest.met)), _classes(longest))
        right.set_xlabel("times met before the target time")
        right.set_ylabel("attention weight × neighbours")
        right.legend(title="target time")


def _classes(each: Recurrence) -> list[str]:
    """From lower bounds to "1", "2", "3-4", …, "33+"."""
    ends = [*(low - 1 for low in each.met[1:]), None]
    return [
        f"{low}+" if end is None else str(low) if low == end else f"{low}–{end}"
        for low, end in zip(each.met, ends, strict=True)
    ]
