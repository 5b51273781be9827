"""`status`: which release serves, how good it is on what became known lately, and whether anything is held back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console, step_bars, when
from stream_tgat.commands.waiting import held_back
from stream_tgat.durations import in_words
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from rich.console import Console

    from stream_tgat.training.card import ReleaseCard
    from stream_tgat.wire import AnswerFigures, HeadQuality, QualityReport

OLD_S = 600.0
"""A report older than this was made by somebody who monitors no more."""


def status_command(topology: Topology) -> click.Command:
    """`status`."""

    @click.command(cls=Command)
    @click.option("--json", "as_json", is_flag=True, help="The report as one JSON object, as it is on topic `quality`.")
    @click.option("--fresh", is_flag=True, help="Read the topics now, whatever the newest report on `quality` says.")
    @click.option(
        "--window", type=click.IntRange(min=10), help="Newest answers of each head to look at; reads the topics."
    )
    def status(as_json: bool, fresh: bool, window: int | None) -> None:
        """Show which release serves and how good it is on what became known while it served.

        Each label is joined with the prediction made at the time: for a label about a user at a time, that at the
        user's last interaction until then. What a model has learnt from does not count. Beside each figure stands the
        one from the release's card, measured in training. Links are compared with items drawn at random from the
        stream, so not with the card.

        Events that are held back are named with the partition that they wait for.

        The newest report on topic `quality` is shown, which a running `retrain` renews; where there is none, the topics
        are read once.

          faust -A stream_tgat status
          faust -A stream_tgat status --fresh --window 1000
          faust -A stream_tgat status --json
        """
        from stream_tgat.monitoring.publishing import newest_report
        from stream_tgat.training.promotion import newest_loadable, no_release, promotions

        reach(topology.kafka)
        found = promotions(topology)
        if not found:
            raise no_release(topology)  # where nothing serves there is nothing to tell
        loaded, refused = newest_loadable(topology, found)
        report = None
        if not fresh and window is None and loaded is not None:
            report = newest_report(topology)
            # One from before the promotion says nothing about what serves now.
            report = report if report is not None and report.model == loaded.promotion.version else None
        published = report is not None
        held = None if as_json else held_back(topology)
        if report is None:
            report = _measured(topology, window)
        if as_json:
            click.echo(report.model_dump_json(indent=2))
        else:
            for each, problem in refused:
                console().print(
                    f"Model {each.version} was promoted and is refused: {problem}", style="yellow", markup=False
                )
            _show(topology, report, held, published=published)

    return status


def _measured(topology: Topology, window: int | None) -> QualityReport:
    """What the topics say now, read once."""
    from stream_tgat.monitoring.monitor import Monitor
    from stream_tgat.training.served import ServedReleases

    if window is not None:
        monitoring = topology.monitoring.model_copy(update={"window": window})
        topology = topology.model_copy(update={"monitoring": monitoring})
    with (
        Monitor(topology, ServedReleases(topology)) as monitor,
        step_bars(disable=not console(stderr=True).is_terminal) as bars,
    ):
        task = bars.add_task("Reading the topics", total=None)
        monitor.catch_up(lambda done, total: bars.update(task, completed=done, total=total))
        return monitor.report()


def _show(topology: Topology, report: QualityReport, held: str | None, *, published: bool) -> None:
    out = console()
    since = "" if report.serving_since is None else f" since {when(report.serving_since)}"
    if report.model is None:
        out.print("Nothing that was promoted can serve.")
    else:
        out.print(f"Release [bold]{escape(report.release or '')}[/] serves as version {report.model}{since}.")
    if report.stale_rows:
        out.print(f"{report.stale_rows:,} rows still rest on older models.")
    if held is not None:
        out.print(f"[yellow]{escape(held)}[/]")
    if published:
        _show_age(out, report)
    if report.behind:
        out.print(f"[yellow]{report.behind:,} records are not in these figures yet.[/]")
    if report.until is None:
        out.print(
            f"No predictions on {topology.topics.embeddings} yet; start a worker: faust -A stream_tgat worker",
            markup=False,
        )
        return
    if report.heads:
        out.print(_heads_table(report, _card(topology, report)))
        _show_labels(out, topology, report)
    _show_links(out, topology, report)
    _show_drift(out, report)


def _show_age(out: Console, report: QualityReport) -> None:
    age = max(time.time() - report.created, 0.0)
    if age > OLD_S:
        out.print(
            f"[yellow]Found {in_words(age)} ago; nobody seems to watch now.[/] For figures of now add --fresh.",
        )
    else:
        out.print(f"Found {in_words(age)} ago.")


def _heads_table(report: QualityReport, card: ReleaseCard | None) -> Table:
    """One row for each head, and under it one for each model where several have predicted."""
    table = Table("head", "answers", "base rate", "AUC", "card", "AP", "card", "off by", "Brier", "alerts", "came true")
    for column in table.columns[1:]:
        column.justify = "right"
    for head in report.heads:
        of_one = len(head.by_model) == 1 and report.model in head.by_model
        model = report.model if of_one else None
        table.add_row(escape(head.head), *_cells(head.overall, *(_on_card(head, card) if of_one else (None, None))))
        if model is None:
            for version, figures in sorted(head.by_model.items(), reverse=True):
                told = _on_card(head, card) if version == report.model else (None, None)
                table.add_row(f"  [dim]model {version}[/]", *_cells(figures, *told))
    return table


def _cells(figures: AnswerFigures, card_auc: float | None, card_precision: float | None) -> tuple[str, ...]:
    return (
        f"{figures.count:,}",
        _number(figures.base_rate),
        _number(figures.auc),
        f"[dim]{_number(card_auc)}[/]",
        _number(figures.average_precision),
        f"[dim]{_number(card_precision)}[/]",
        _number(figures.calibration_error),
        _number(figures.brier),
        f"{figures.alerts:,}",
        "-" if figures.alert_precision is None else f"{figures.alert_precision:.0%}",
    )


def _show_labels(out: Console, topology: Topology, report: QualityReport) -> None:
    """What the figures are over, and what is missing from them."""
    for head in report.heads:
        name = escape(head.head)
        if not head.labels:
            out.print(f"{name}: no labels {escape(head.label)!r} on {topology.topics.labels} yet.")
        elif head.since is not None and head.until is not None:
            out.print(f"[dim]{name}: questions from {when(head.since)} to {when(head.until)}[/]")
        if head.learnt_from:
            out.print(f"[dim]{name}: {head.learnt_from:,} answers are left out; the model has learnt from that time[/]")
        if head.overall.unmeasured and head.labels:
            out.print(
                f"[yellow]{name}: how well it ranks cannot be measured,[/] {head.overall.unmeasured}", soft_wrap=False
            )
        if head.immature:
            out.print(
                f"{name}: {head.immature:,} answers wait, as answers of both kinds are known only "
                f"{in_words(head.answers_after)} after the question",
                soft_wrap=False,
            )
        if head.without_prediction:
            some = escape(", ".join(map(repr, head.without_prediction_of)))
            out.print(
                f"[dim]{name}: {head.without_prediction:,} of {head.labels:,} labels found no prediction"
                f"{f', such as of {some}' if some else ''}[/]",
                soft_wrap=False,
            )
        if head.too_old:
            out.print(
                f"[yellow]{name}: {head.too_old:,} of {head.labels:,} labels are about a time before all predictions "
                f"that are kept:[/] see retention.embeddings_days, monitoring.horizon_days and monitoring.predictions"
            )
    for each in report.unknown_labels:
        out.print(
            f"[yellow]{each.count:,} labels {escape(repr(each.label))} say nothing:[/] {escape(each.why)}",
            soft_wrap=False,
        )
    if report.user_share < 1:
        out.print(f"Looked at: {report.user_share:.3%} of the users (monitoring.predictions bounds the memory)")


def _show_links(out: Console, topology: Topology, report: QualityReport) -> None:
    for each in report.links:
        out.print(
            f"Links, model {each.model}: average precision {_number(each.average_precision)} of {each.pairs:,} "
            "interactions against items drawn at random (0.5 is chance)"
        )
    if not report.links and topology.monitoring.links_every:
        why = (
            "the affinity reads pair features" if topology.model.pair_features else "too few interactions were sampled"
        )
        out.print(f"[dim]Links: not measured, {why}[/]")


def _show_drift(out: Console, report: QualityReport) -> None:
    for each in report.drift:
        out.print(
            f"[yellow]Drift[/] of {escape(each.name)} since {when(each.since)}: mean {each.present:.4g}, and "
            f"{each.reference:.4g} when the model began"
        )
    if not report.drift:
        out.print(f"[dim]No drift of {report.watched} scores and features[/]")


def _card(topology: Topology, report: QualityReport) -> ReleaseCard | None:
    """The card of the release that the report is about; None where it is not at hand."""
    from stream_tgat.errors import StreamTgatError
    from stream_tgat.training.promotion import promoted_card, promotions

    try:
        (promotion,) = (each for each in promotions(topology) if each.version == report.model)
        return promoted_card(topology, promotion)
    except (StreamTgatError, ValueError):
        return None


def _on_card(head: HeadQuality, card: ReleaseCard | None) -> tuple[float | None, float | None]:
    """AUC and average precision as they were measured when the release was made."""
    if card is None:
        return None, None
    return card.newest(f"heads.{head.head}", "auc"), card.newest(f"heads.{head.head}", "average_precision")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
