"""`evaluate`: how good a release is on the user's own data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.progress import TaskID
from rich.table import Table

from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console, step_bars, when
from stream_tgat.commands.cards import rules_table
from stream_tgat.commands.train import status_line, tell_log
from stream_tgat.errors import WireError
from stream_tgat.topology import Topology
from stream_tgat.wire import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from stream_tgat.evaluation.head_figures import HeadAnswers, HeadFigures
    from stream_tgat.evaluation.link_figures import LinkRow
    from stream_tgat.evaluation.release_report import ReleaseReport
    from stream_tgat.nn.model import Model
    from stream_tgat.training.log import TrainingLog
    from stream_tgat.training.registry import Release

COLUMNS = "user,item,timestamp"


def evaluate_command(topology: Topology) -> click.Command:
    """`evaluate`."""

    @click.command(cls=Command)
    @click.option("--release", "wanted", help="Name of a release, or an end of it. Default: the one that serves.")
    @click.option(
        "--data",
        type=click.Path(exists=True, path_type=Path),
        help="A file (CSV, Parquet, JODIE) or a data set's folder instead of what is in Kafka.",
    )
    @click.option(
        "--columns",
        default=COLUMNS,
        show_default=True,
        help="Columns of a table: user, item and time, and a label (0 or 1) if there is a fourth.",
    )
    @click.option(
        "--since", help="Measure from this time on (ISO 8601 or unix seconds), whatever the release has seen."
    )
    @click.option("--max-interactions", type=click.IntRange(min=1), help="Measure at most the newest so many.")
    @click.option(
        "--ranked",
        type=click.IntRange(min=0),
        default=1000,
        show_default=True,
        help="Rank so many interactions, evenly spread, among --candidates; 0 for none.",
    )
    @click.option(
        "--candidates", type=click.IntRange(min=1), default=100, show_default=True, help="Items to rank among."
    )
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the negatives.")
    @click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:1.")
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here, as JSON.")
    @click.option(
        "--plots",
        type=click.Path(file_okay=False, path_type=Path),
        help="Draw each head's reliability into this folder, as SVG.",
    )
    def evaluate(
        wanted: str | None,
        data: Path | None,
        columns: str,
        since: str | None,
        max_interactions: int | None,
        ranked: int,
        candidates: int,
        seed: int,
        device: str,
        out: Path | None,
        plots: Path | None,
    ) -> None:
        """Measure a release on data that it has not learnt from.

        By default: the release that serves, on all in `interactions` and `labels` that is newer than what it learnt
        from. Every embedding sees only what is strictly earlier, as in the stream.

        Links: which item does a user meet next? Each interaction is compared with an item drawn at random, with one
        that the user met before (historical), and with one met since training (inductive), and ranked among random
        ones. Rules without a model answer the same questions.

        Heads: AUC with the interval that a bootstrap over users gives, average precision, Brier score, expected
        calibration error (ECE; 0.02: probabilities are off by two percentage points on average), and how many alerts at
        the head's threshold came true.

        It ends in a sentence: is the release better or worse than the best simple rules, and by how much? They are
        compared as `train` and the gate of `retrain` do, by retrain.metrics; a release that does not beat them is not
        worth serving.

          faust -A stream_tgat evaluate
          faust -A stream_tgat evaluate --release 1f2e3d4c --since 2024-05-01 --out runs/figures.json --plots runs/plots
          faust -A stream_tgat evaluate --data events.parquet --columns customer,product,time,returned

        A file's other columns are read as the topology's [[features]] by their names.
        """
        from stream_tgat.evaluation.reliability_plot import require_plots

        if plots is not None:
            require_plots()
        begin = None if since is None else _time(since)
        if wanted is None or data is None:
            reach(topology.kafka)
        asked = _Options(begin, max_interactions, ranked, candidates, seed)
        model, release = _release(topology, wanted)
        log, source = _log(topology, data, columns)
        report, answers = _measure(topology, model.to(device), release, log, source, asked)
        _show(report)
        if out is not None:
            from stream_tgat.evaluation.release_report import write_report

            write_report(out, report)
            console().print(f"All figures: {out}")
        if plots is not None:
            _draw(report, answers, plots)
        console().print(report.rules.sentence, markup=False, soft_wrap=False)

    return evaluate


@dataclass(frozen=True)
class _Options:
    """What is asked of a release."""

    since: float | None
    at_most: int | None
    ranked: int
    candidates: int
    seed: int


def _time(text: str) -> float:
    """Unix seconds of an option's text."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        # A day alone begins at midnight, UTC.
        return parse_time(text if "T" in text else f"{text}T00:00:00Z")
    except WireError as problem:
        raise click.BadParameter(f"{text!r} {problem}", param_hint="--since") from None


def _release(topology: Topology, wanted: str | None) -> tuple[Model, Release]:
    from stream_tgat.training import promotion
    from stream_tgat.training.registry import ReleaseStore, check_fits

    store = ReleaseStore(topology.releases.store)
    if wanted is None:
        return promotion.load_release(topology, promotion.serving(topology))
    model, release = store.load(store.find(wanted).name)
    check_fits(release, topology)
    return model, release


def _log(topology: Topology, data: Path | None, columns: str) -> tuple[TrainingLog, str]:
    """The interactions, and a word on where they come from; what was found in them is told."""
    if data is None:
        from stream_tgat.training.log_part import read_log

        with status_line("Reading the log"):
            log, _ = read_log(topology)
        tell_log(log)
        return log, f"what {topology.topics.interactions} holds"
    from stream_tgat.evaluation.own_data import Named, read_own_data

    names = columns.split(",")
    if not 3 <= len(names) <= 4:
        raise click.BadParameter(f"three or four names are needed, not {len(names)}", param_hint="--columns")
    with status_line(f"Reading {data}"):
        own = read_own_data(data, topology, Named(*names))
    console().print(own.report)
    return own.log, str(data)


def _measure(
    topology: Topology, model: Model, release: Release, log: TrainingLog, source: str, asked: _Options
) -> tuple[ReleaseReport, dict[str, HeadAnswers]]:
    from stream_tgat.evaluation import head_figures, link_figures
    from stream_tgat.evaluation.beside_rules import beside_rules
    from stream_tgat.evaluation.comparison import ModelAnswers, ask_links
    from stream_tgat.evaluation.measured_part import measured_part
    from stream_tgat.evaluation.release_report import ReleaseReport

    part = measured_part(log.interactions.time, release, asked.since, asked.at_most)
    thresholds = {
        head.name: float(model.thresholds[at]) if head.threshold is None else head.threshold
        for at, head in enumerate(topology.heads)
    }
    how = link_figures.protocol(asked.ranked, asked.candidates, asked.seed)
    with step_bars() as bars:
        tasks: dict[str, TaskID] = {}

        def on_link(method: str, done: int, total: int) -> None:
            if method not in tasks:
                tasks[method] = bars.add_task(f"Links, {method}", total=total)
            bars.update(tasks[method], completed=done)

        rows = link_figures.link_rows(model, log, part, how, on_link)
        task = bars.add_task("Heads", total=None)
        answers = head_figures.answers_of(
            model, log, part, topology.heads, lambda done, total: bars.update(task, completed=done, total=total)
        )
        figures = []
        for name, each in answers.items():
            bars.update(task, description=f"Head {name}, bootstrap over users")
            figures.append(head_figures.head_figures(name, each, thresholds[name], asked.seed))
        bars.update(task, description="Comparing with simple rules")
        found = ModelAnswers(ask_links(model, log, part, topology.training.seed), answers)
        rules = beside_rules(found, log, part, topology)
        if not part.unseen:
            rules = replace(rules, sentence=f"{rules.sentence} It may have learnt from these, which flatters it.")
    report = ReleaseReport(
        release=release.name,
        topology=topology.name,
        data=source,
        interactions=len(log.interactions),
        nodes=len(log.nodes),
        part=part,
        seed=asked.seed,
        labels={name: int((each.event >= part.first).sum()) for name, each in log.labels.items()},
        links=rows,
        heads=tuple(figures),
        rules=rules,
    )
    return report, answers


def _show(report: ReleaseReport) -> None:
    out, part = console(), report.part
    begin, end = when(part.begin), when(part.end)
    out.print(f"Release [bold]{report.release}[/], on {part.count:,} of {report.interactions:,} interactions,")
    out.print(
        f"{begin} to {end} UTC: {part.note}", style=None if part.unseen else "yellow", markup=False, soft_wrap=False
    )
    out.print(_counts(report), soft_wrap=False)
    for table in _link_tables(report.links):
        out.print()
        out.print(table)
    for row in report.heads:
        out.print()
        _show_head(out, row)
    if report.rules.figures:
        out.print()
        out.print(rules_table(report.rules))
    out.print()


def _counts(report: ReleaseReport) -> str:
    """How many were asked about: not every user has met somebody whom it could be asked about again."""
    from stream_tgat.evaluation.link_prediction import Group, NegativeKind

    first = report.links[0].report
    seen, unseen = (first.pair(group=group).count for group in (Group.SEEN, Group.UNSEEN))
    historical, inductive = (first.pair(kind).count for kind in (NegativeKind.HISTORICAL, NegativeKind.INDUCTIVE))
    ranked = first.rank().count if first.ranks else 0
    return (
        f"{seen:,} of nodes seen before them, {unseen:,} with at least one unseen; {historical:,} have a historical "
        f"negative, {inductive:,} an inductive one; {ranked:,} are ranked. "
        f"Of the random negatives nobody had met {first.never_seen:.1%} before."
    )


def _link_tables(rows: tuple[LinkRow, ...]) -> Iterator[Table]:
    """Link prediction, one row per method: over all that was asked, and by what the negatives are."""
    from stream_tgat.evaluation.link_prediction import Group, NegativeKind

    over_all = Table("links", "AP", "AUC", "MRR", "Hits@10", box=None, pad_edge=False)
    by_kind = Table("AP where", "seen", "unseen", "historical", "inductive", box=None, pad_edge=False)
    for table in (over_all, by_kind):
        table.columns[0].min_width = 24
        for column in table.columns[1:]:
            column.justify = "right"
    for row in rows:
        report = row.report
        ranks = (report.rank().mrr, report.rank().hits_at_10) if report.ranks else (float("nan"),) * 2
        over_all.add_row(row.method, *map(_number, (report.pair().average_precision, report.pair().auc, *ranks)))
        pairs = (
            report.pair(group=Group.SEEN),
            report.pair(group=Group.UNSEEN),
            report.pair(NegativeKind.HISTORICAL),
            report.pair(NegativeKind.INDUCTIVE),
        )
        by_kind.add_row(row.method, *(_number(each.average_precision) for each in pairs))
    yield over_all
    yield by_kind


def _show_head(out: Console, row: HeadFigures) -> None:
    """A block for one head."""
    true = f", of which {row.base_rate:.1%} came true" if row.answers else ""
    out.print(f"[bold]{escape(row.head)}[/]: {row.answers:,} answers about {row.users:,} users{true}")
    if not row.answers:
        return
    interval = f" (95 %: {row.auc.low:.2f}-{row.auc.high:.2f})" if row.auc.rounds > 1 else ""
    out.print(f"  AUC {_number(row.auc.estimate)}{interval}   AP {_number(row.average_precision)}")
    out.print(f"  Brier {_number(row.brier)}   ECE {_number(row.calibration_error)}")
    precision = row.alerts.precision
    came_true = "" if precision != precision else f", of which {precision:.1%} came true"
    out.print(f"  {row.alerts.count:,} alerts above {_number(row.alerts.threshold)}{came_true}")


def _draw(report: ReleaseReport, answers: dict[str, HeadAnswers], folder: Path) -> None:
    from stream_tgat.evaluation.reliability_plot import draw_reliability

    for row in report.heads:
        if row.answers == 0:
            console().print(f"No plot of {row.head}: nothing of its label is known in this part.")
            continue
        file = draw_reliability(row.head, row.reliability, answers[row.head].probability.tolist(), folder)
        console().print(f"Reliability of {row.head}: {file}")


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
