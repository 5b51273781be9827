"""The page itself: a template's prose, with each section in the place that asks for it."""

import re
from collections.abc import Callable
from pathlib import Path

import click

from research.page import labels
from research.page.ablations import encodings_section, samplings_section, sizes_section
from research.page.attention import attention_section
from research.page.fidelity import fidelity_section
from research.page.floors import floors_section
from research.page.gate import gate_section
from research.page.link_tables import comparisons, links_section
from research.page.refit import refit_section
from research.page.results import Results, read_results
from research.page.retraining import retraining_section
from research.page.staleness import staleness_section
from research.page.statistics import statistics_section
from research.page.verdict import verdict
from stream_tgat.errors import DataError, StreamTgatError

SECTIONS: dict[str, Callable[[Results], str]] = {
    "verdict": lambda results: verdict([*comparisons(results), *labels.comparisons(results)]),
    "links": links_section,
    "floors": floors_section,
    "fidelity": fidelity_section,
    "labels": labels.labels_section,
    "retraining": retraining_section,
    "gate": gate_section,
    "refit": refit_section,
    "staleness": staleness_section,
    "time-encodings": encodings_section,
    "samplings": samplings_section,
    "sizes": sizes_section,
    "attention": attention_section,
    "statistics": statistics_section,
}
"""By the name that a line of the template asks for, as in `{{ links }}`."""

TEMPLATE = "template.md"

ASKED = re.compile(r"^\{\{ *([a-z-]+) *\}\}$", re.MULTILINE)


def write_page(folder: Path) -> Path:
    """Make the page from the records and the template in a folder; figures go into the folder, the page beside it.

    Returns the page's file, which has the folder's name. Raises DataError for a template that asks for what there is
    not.
    """
    template = folder / TEMPLATE
    if not template.is_file():
        raise DataError(f"{template} is missing; it holds the prose of the page")
    page = folder.with_suffix(".md")
    page.write_text(filled(template.read_text(), read_results(folder)))
    return page


def filled(template: str, results: Results) -> str:
    """A template with its sections."""

    def section(asked: re.Match[str]) -> str:
        name = asked.group(1)
        if name not in SECTIONS:
            raise DataError(f"the template asks for {name!r}; there are {', '.join(SECTIONS)}")
        return SECTIONS[name](results)

    return ASKED.sub(section, template)


@click.command("report")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path("docs/results"))
def report(folder: Path) -> None:
    """Write the page of results, and its figures, from the files in FOLDER."""
    try:
        click.echo(write_page(folder.resolve()))
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
