"""The pages of results: an overview, one page for each data set, one for the gate, one that compares the data sets.

A page is a template's prose, with each section in the place that asks for it. On the page of a data set a part of which
nothing was measured is left out.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from research.page.ablations import encodings_section, samplings_section, sizes_section
from research.page.attention import attention_section
from research.page.fidelity import fidelity_section
from research.page.floors import floors_section
from research.page.gate import gate_section
from research.page.labels import labels_section
from research.page.link_tables import links_section
from research.page.overview import figures_section, main_tables_section, pages_section, renewal_section, verdict_section
from research.page.refit import refit_section
from research.page.results import Results, read_results
from research.page.retraining import retraining_section
from research.page.staleness import staleness_section
from research.page.statistics import statistics_section
from stream_tgat.errors import DataError, StreamTgatError

SECTIONS: Mapping[str, Callable[[Results], str]] = {
    "main-tables": main_tables_section,
    "verdict": verdict_section,
    "renewal": renewal_section,
    "figures": figures_section,
    "pages": pages_section,
    "links": links_section,
    "floors": floors_section,
    "fidelity": fidelity_section,
    "labels": labels_section,
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
"""By the name that a line of a template asks for, as in `{{ links }}`."""

TEMPLATES = Path(__file__).parent / "templates"

ASKED = re.compile(r"^\{\{ *([a-z-]+) *\}\}$", re.MULTILINE)

RESULTS = Path(__file__).parents[1] / "results"
"""What the pages are made of."""


def write_pages(results: Path, docs: Path) -> list[Path]:
    """Make the pages from the records in a folder: `results.md` in docs, the others and their figures in `results/`.

    Returns the files of the pages, the overview first.
    """
    folder = docs / "results"
    folder.mkdir(parents=True, exist_ok=True)
    every = read_results(results, folder)
    pages = {folder / f"{name}.md": data_set_page(name, every) for name in every.measured()}
    pages |= {folder / f"{name}.md": filled(_template(name), every) for name in ("gate", "data")}
    pages = {docs / "results.md": filled(_template("overview"), every), **pages}
    for file, text in pages.items():
        file.write_text(text)
    return list(pages)


def data_set_page(name: str, every: Results) -> str:
    """All that was measured on one data set."""
    return filled(_template("data_set").replace("NAME", name), every.of(name))


def filled(template: str, results: Results) -> str:
    """A template with its sections; parts (`## …`) all of whose sections are empty are left out."""

    def section(asked: re.Match[str]) -> str:
        name = asked.group(1)
        if name not in SECTIONS:
            raise DataError(f"the template asks for {name!r}; there are {', '.join(SECTIONS)}")
        return SECTIONS[name](results)

    parts = []
    for part in re.split(r"^(?=## )", template, flags=re.MULTILINE):
        made = [section(asked) for asked in ASKED.finditer(part)]
        if any(made) or not made:
            texts = iter(made)
            parts.append(ASKED.sub(lambda _, texts=texts: next(texts), part))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).rstrip() + "\n"


def _template(name: str) -> str:
    return (TEMPLATES / f"{name}.md").read_text()


@click.command("report")
@click.argument("results", type=click.Path(exists=True, file_okay=False, path_type=Path), default=RESULTS)
@click.option("--docs", type=click.Path(file_okay=False, path_type=Path), default=Path("docs"), show_default=True,
              help="Folder of the pages.")  # fmt: skip
def report(results: Path, docs: Path) -> None:
    """Write the pages of results, and their figures, from the tables in RESULTS (default: those kept here)."""
    try:
        for page in write_pages(results.resolve(), docs):
            click.echo(page)
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
