"""The data sets on the page: a table, and how many interactions there are over time."""

from bisect import bisect_left
from itertools import accumulate

from research.experiments.statistics import Statistics
from research.page.canvas import BLUE, panels
from research.page.markdown import figure, origin, table
from research.page.results import Results, place_of

FILE = "interactions-over-time.svg"


def statistics_section(results: Results) -> str:
    """Data sets in columns."""
    records = sorted(results.statistics, key=lambda each: place_of(each.result.name))
    if not records:
        return ""
    found = [record.result for record in records]
    draw(found, results)
    header = ["", *(each.name for each in found)]
    columns = [_named(each) for each in found]
    body = table(header, [[cells[0][0], *(value for _, value in cells)] for cells in zip(*columns, strict=True)])
    return "\n\n".join([body, figure(FILE, "interactions over time in each data set"), origin(records)])


def draw(found: list[Statistics], results: Results) -> None:
    """Interactions a day, a panel for each data set; the dotted lines part training, validation and test."""
    lines = -(-len(found) // 3)
    with panels(results.folder / FILE, lines, 3, 9.0, 2.1 * lines) as axes:
        for axis, each in zip(axes, found, strict=False):
            bins = len(each.per_bin)
            width = each.days / bins
            edges = [width * place for place in range(bins + 1)]
            axis.stairs([count / width for count in each.per_bin], edges, fill=True, color=BLUE)
            happened = list(accumulate(each.per_bin))
            for share in (0.70, 0.85):
                axis.axvline(
                    edges[1 + bisect_left(happened, share * each.interactions)], color="black", lw=0.8, linestyle=":"
                )
            axis.set_title(each.name)
            axis.set_xlabel("day")
        for axis in axes[len(found) :]:
            axis.set_visible(False)
        for axis in axes[::3]:
            axis.set_ylabel("interactions a day")


def _named(each: Statistics) -> list[tuple[str, str]]:
    """A data set's cells with the names of their rows."""
    share = each.positive / each.labelled if each.labelled else 0.0
    return [
        ("nodes", f"{each.nodes:,}"),
        ("sources / destinations", f"{each.sources:,} / {each.destinations:,}"),
        ("interactions", f"{each.interactions:,}"),
        ("edge features", str(each.edge_width)),
        ("node features", str(each.node_width)),
        ("days", f"{each.days:,.0f}"),
        ("different pairs", f"{each.pairs:,}"),
        ("pair met before", f"{100 * each.repeated:.1f} %"),
        ("interactions of a node, median", f"{each.median_degree:g}"),
        ("not alone at their time", f"{100 * each.tied:.1f} %"),
        ("learnt / validation / test", f"{each.learnt:,} / {each.validation:,} / {each.test:,}"),
        ("test: at least one node unseen", f"{100 * each.unseen:.1f} %"),
        ("test: both unseen", f"{100 * each.both_unseen:.1f} %"),
        ("labels", f"{each.labelled:,}" if each.labelled else "–"),
        ("of these positive", f"{100 * share:.2f} %" if each.labelled else "–"),
    ]
