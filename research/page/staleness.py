"""What old peer embeddings cost, on the page: a table for each data set."""

from research.page.markdown import origin, table
from research.page.results import Results, place_of
from research.page.retraining import gain
from research.prequential.staleness import StaleBin, StalenessReport

HEADER = (
    "interactions since",
    "questions",
    "positive",
    "old peer embeddings",
    "distance",
    "of the old model",
    "AUC re-encoded",
    "AUC, old peer embeddings",
    "AUC, old model",
    "cost of old peer embeddings",
)

FEWEST_POSITIVES = 10
"""With fewer of them an AUC says nothing, and is left out."""


def staleness_section(results: Results) -> str:
    """Every switch, with its command."""
    parts = []
    for record in sorted(results.staleness, key=lambda each: (place_of(each.result.task), each.command)):
        parts += [f"### {title(record.result)}", _table(record.result), origin([record])]
    return "\n\n".join(parts)


def title(report: StalenessReport) -> str:
    """What was switched, and when."""
    same = report.seeds[0] == report.seeds[1]
    start = "the same random weights to begin with" if same else "other random weights to begin with"
    return (
        f"On day {report.day:.0f}, from the model of day {report.old_day:.0f} to a new one, {start}\n\n"
        f"{report.layers} layers, {report.neighbours} neighbours; questions of the next {report.days:.0f} days."
    )


def _table(report: StalenessReport) -> str:
    return table(HEADER, [_row(each) for each in (*report.bins, report.whole) if each.count])


def _row(each: StaleBin) -> list[str]:
    if each.high is None:
        since = f"{each.low} or more" if each.low else "any"
    else:
        since = str(each.low) if each.low == each.high else f"{each.low}–{each.high}"
    areas = [f"{100 * figure:.2f}" for figure in (each.right, each.stale, each.old)]
    judged = [*areas, gain(each.cost)] if each.positive >= FEWEST_POSITIVES else ["–"] * 4
    return [
        since,
        f"{each.count:,}",
        f"{each.positive:,}",
        f"{100 * each.share:.0f} %",
        f"{each.distance:.3f}",
        f"{each.old_distance:.3f}",
        *judged,
    ]
