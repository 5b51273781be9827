"""The table of all metrics, for the documentation: made from the catalogue, between two marks of a page."""

from itertools import groupby

from stream_tgat.metrics.catalogue import ALL, Metric

BEGIN = "<!-- metrics: made by python -m stream_tgat.metrics PAGE -->\n"
END = "<!-- end of metrics -->\n"


def table() -> str:
    """All metrics in Markdown, group by group."""
    parts = []
    for group, metrics in groupby(ALL, key=lambda metric: metric.group):
        rows = "\n".join(map(_row, metrics))
        parts.append(f"### {group}\n\n| metric | kind | labels | |\n|---|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def with_table(page: str) -> str:
    """The page with the table of now between its marks; ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{begin}\n{table()}\n{end}{after}"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"
