"""`status`: which release serves, how good it is on what became known lately, and whether anything is held back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from stream_tgat.backlog.standing_still import held_back
from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console, step_bars, when
from stream_tgat.durations import in_words
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stream_tgat.training.card import ReleaseCard
    from stream_tgat.training.promotion import Promotion
    from stream_tgat.wire import AnswerFigures, HeadQuality, QualityReport

_NOBODY = "To have it watched, set a trigger under [retrain], or run: faust -A stream_tgat retrain."
OLD_S = 600.0
"""A report older than this was made by somebody who monitors no more."""


def status_command(topology: Topology) -> click.Command:
    """`status`."""

    @click.command(cls=Command)
    @click.option("--json", "as_json", is_flag=True, help="The report as one JSON object, as it is on topic `quality`.")
    @click.option("--fresh", is_flag=True, help="Measure the quality now: reads the topics, which takes a while.")
    @click.option("--window", type=click.IntRange(min=10), help="As --fresh, over so many newest answers of each head.")
    def status(as_json: bool, fresh: bool, window: int | None) -> None:
        """Show which release serves, whether events are held back, and how good predictions were.

        It answers at once, from what the workers have committed and from the newest report on topic `quality`, which a
        worker with [retrain], or a running `retrain`, renews. Where nobody does, --fresh reads the topics.

        Each label is joined with the prediction made at the time: for a label about a user at a time, that at the
        user's last interaction until then. What a model has learnt from does not count. Beside each figure stands the
        one from the release's card, measured in training. Links are compared with items drawn at random from the
        stream, so not with the card.

        Events that are held back are named with the partition that they wait for.

          faust -A stream_tgat status
          faust -A stream_tgat status --fresh --window 1000
          faust -A stream_tgat status --json
        """
        from stream_tgat.monitoring.publishing import newest_report
        from stream_tgat.training.promotion import no_release, promotions

        reach(topology.kafka)
        found = promotions(topology)
        if not found:
            raise no_release(topology)  # where nothing serves there is nothing to tell
        if fresh or window is not None:
            _tell_measured(topology, found, window, as_json=as_json)
            return
        report = newest_report(topology)
        if as_json:
            if report is None:
                raise click.ClickException(f"{_NOBODY} Or add --fresh.")
            click.echo(report.model_dump_json(indent=2))
            return
        out = console()
        _show_serving(out, found[-1], report)
        _show_held_back(out, topology)
        if report is None:
            out.print(f"How good it is nobody says. {escape(_NOBODY)} Or look once, with --fresh.", soft_wrap=False)
        elif report.model == found[-1].version:
            _show_age(out, report)
            _show_quality(topology, report, found)

    return status


def _show_serving(out: Console, newest: Promotion, report: QualityReport | None) -> None:
    """The release that was promoted last, and another one where that is what was found to serve."""
    out.print(f"Release [bold]{escape(newest.record.release)}[/] was promoted last, as version {newest.version}.")
    if report is None or report.model == newest.version:
        return
    if report.model is None or report.model < newest.version:
        served = "nothing" if report.model is None else f"version {report.model}"
        out.print(
            f"[yellow]The newest report, of {in_words(_age(report))} ago, says that {served} serves:[/] it is older "
            "than the promotion, or workers refuse that release. --fresh tries to load it.",
            soft_wrap=False,
        )


def _show_held_back(out: Console, topology: Topology) -> None:
    held = held_back(topology)
    if held is not None:
        out.print(f"[yellow]{escape(held)}[/]", soft_wrap=False)


def _age(report: QualityReport) -> float:
    return max(time.time() - report.created, 0.0)


def _tell_measured(topology: Topology, found: Sequence[Promotion], window: int | None, *, as_json: bool) -> None:
    """What the topics say now, and what serves: that which can be loaded."""
    from stream_tgat.training.promotion import newest_loadable

    _, refused = newest_loadable(topology, found)
    report = _measured(topology, window)
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    out = console()
    for each, problem in refused:
        out.print(f"Model {each.version} was promoted and is refused: {problem}", style="yellow", markup=False)
    since = "" if report.serving_since is None else f" since {when(report.serving_since)}"
    if report.model is None:
        out.print("Nothing that was promoted can serve.")
    else:
        out.print(f"Release [bold]{escape(report.release or '')}[/] serves as version {report.model}{since}.")
    _show_held_back(out, topology)
    _show_quality(topology, report, found)


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


def _show_quality(topology: Topology, report: QualityReport, promoted: Sequence[Promotion]) -> None:
    out = console()
    if report.renewal != "watching":
        out.print(f"The process that renews the model is {report.renewal}.")
    if report.stale_rows:
        out.print(f"{report.stale_rows:,} rows still rest on older models.")
    if report.behind:
        out.print(f"[yellow]{report.behind:,} records are not in these figures yet.[/]")
    if report.until is None:
        out.print(
            f"No predictions on {topology.topics.embeddings} yet; start a worker: faust -A stream_tgat worker",
            markup=False,
            soft_wrap=False,
        )
        return
    card = _card(topology, report, promoted) if report.heads else None
    for head in report.heads:
        _show_head(out, head, report, card)
        _show_labels(out, topology, head)
    _show_unknown(out, report)
    _show_links(out, topology, report)
    _show_drift(out, report)


def _show_age(out: Console, report: QualityReport) -> None:
    age = _age(report)
    if age > OLD_S:
        out.print(
            f"[yellow]Found {in_words(age)} ago; nobody seems to watch now.[/] For figures of now add --fresh.",
            soft_wrap=False,
        )
    else:
        out.print(f"Found {in_words(age)} ago.")


def _show_head(out: Console, head: HeadQuality, report: QualityReport, card: ReleaseCard | None) -> None:
    """A block for one head: a row for what serves, or one for all and one for each model that has predicted."""
    rate = head.overall.base_rate
    true = "" if rate is None else f", of which {rate:.1%} came true"
    out.print(f"\n[bold]{escape(head.head)}[/]: {head.overall.count:,} answers{true}")
    if not head.overall.count:
        return
    table = Table(
        "", "answers", "AUC", "card", "AP", "card", "off by", "Brier", "alerts", "true", box=None, pad_edge=False
    )
    for column in table.columns[1:]:
        column.justify = "right"
    if len(head.by_model) > 1 or report.model not in head.by_model:
        table.add_row("all", *_cells(head.overall, None, None))
    for version, of_model in sorted(head.by_model.items(), reverse=True):
        told = _on_card(head, card) if version == report.model else (None, None)
        table.add_row(f"model {version}", *_cells(of_model, *told))
    out.print(table)


def _cells(figures: AnswerFigures, card_auc: float | None, card_precision: float | None) -> tuple[str, ...]:
    return (
        f"{figures.count:,}",
        _number(figures.auc),
        f"[dim]{_number(card_auc)}[/]",
        _number(figures.average_precision),
        f"[dim]{_number(card_precision)}[/]",
        _number(figures.calibration_error),
        _number(figures.brier),
        f"{figures.alerts:,}",
        "-" if figures.alert_precision is None else f"{figures.alert_precision:.0%}",
    )


def _show_labels(out: Console, topology: Topology, head: HeadQuality) -> None:
    """What the figures of a head are over, and what is missing from them."""
    if not head.labels:
        out.print(f"No labels {escape(head.label)!r} on {topology.topics.labels} yet.")
    elif head.since is not None and head.until is not None:
        out.print(f"[dim]Questions from {when(head.since)} to {when(head.until)}[/]")
    told = []
    if head.learnt_from:
        told.append(f"[dim]{head.learnt_from:,} answers are left out; the model has learnt from that time[/]")
    if head.overall.unmeasured and head.labels:
        told.append(f"[yellow]How well it ranks cannot be measured,[/] {escape(head.overall.unmeasured)}")
    if head.immature:
        told.append(
            f"{head.immature:,} answers wait, as answers of both kinds are known only {in_words(head.answers_after)} "
            "after the question"
        )
    if head.without_prediction:
        some = escape(", ".join(map(repr, head.without_prediction_of)))
        told.append(
            f"[dim]{head.without_prediction:,} of {head.labels:,} labels found no prediction"
            f"{f', such as of {some}' if some else ''}[/]"
        )
    if head.too_old:
        told.append(
            f"[yellow]{head.too_old:,} of {head.labels:,} labels are about a time before all predictions that are "
            "kept:[/] see retention.embeddings_days, monitoring.horizon_days and monitoring.predictions"
        )
    for line in told:
        out.print(line, soft_wrap=False)


def _show_unknown(out: Console, report: QualityReport) -> None:
    if report.heads:
        out.print()
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
            "interactions against items drawn at random (0.5 is chance)",
            soft_wrap=False,
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
            f"{each.reference:.4g} when the model began",
            soft_wrap=False,
        )
    if not report.drift:
        out.print(f"[dim]No drift of {report.watched} scores and features[/]")


def _card(topology: Topology, report: QualityReport, promoted: Sequence[Promotion]) -> ReleaseCard | None:
    """The card of the release that the report is about; None where it is not at hand."""
    from stream_tgat.errors import StreamTgatError
    from stream_tgat.training.promotion import promoted_card

    try:
        (promotion,) = (each for each in promoted if each.version == report.model)
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
