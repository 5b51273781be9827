"""`retrain`: a new model from the log, which serves only if it is not worse than the one that does."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import orjson
from rich.console import Console
from rich.markup import escape
from rich.progress import TaskID
from rich.table import Table

from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console, step_bars, when
from stream_tgat.commands.cards import FIGURES, rules_table
from stream_tgat.commands.train import log_of_release, tell_part
from stream_tgat.logs import begin
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from stream_tgat.evaluation.comparison import HeadSummary
    from stream_tgat.renewal.retrain import RetrainCallbacks, RetrainResult


def retrain_command(topology: Topology) -> click.Command:
    """`retrain`."""

    @click.command(cls=Command)
    @click.option("--now", is_flag=True, help="Retrain once, here, and end.")
    @click.option("--seed", type=click.IntRange(min=0), help="Default: training.seed")
    @click.option(
        "--log-of", metavar="RELEASE", help="Train on what this release was trained on, as far as it is still there."
    )
    @click.option("--dry-run", is_flag=True, help="Train and compare, but keep no release and promote nothing.")
    @click.option("--json", "as_json", is_flag=True, help="What came of it, as JSON.")
    @click.option("--beside-worker", is_flag=True, hidden=True)
    def retrain(
        now: bool, seed: int | None, log_of: str | None, dry_run: bool, as_json: bool, beside_worker: bool
    ) -> None:
        """Train a new model on the log, and let it serve if it is not worse than the one that does.

        Reads the newest part of the log (retrain.window in the topology), holds its newest part out (retrain.held_out)
        and trains on the rest. The new model and the one that serves then answer the same questions about what neither
        has learnt from. The new one is promoted if it is shown not to be worse by more than retrain.margin; else it is
        kept in the store, with the reason on its card; so is a model that is worse than the best simple rules, unless
        retrain.when_worse_than_rules says otherwise. What then serves is a refit: the same recipe on all of the log,
        with the newest part (retrain.refit).

          faust -A stream_tgat retrain --now
          faust -A stream_tgat retrain --now --dry-run
          faust -A stream_tgat retrain --now --log-of 1f2e3d4c --seed 7 --json

        The exit code is 0 whatever the gate decides, and 1 if no model came of it. A release that was not promoted can
        be all the same, with `release promote`.

        Without --now it goes on for ever: it retrains when a trigger in [retrain] says so, gives rows the peer
        embeddings of every new model, and publishes on `quality` how good the serving one is. Of all such processes one
        works at a time. Workers start one by themselves where [retrain] has a trigger.

          faust -A stream_tgat retrain
        """
        from stream_tgat.renewal.priority import step_back

        if not now:
            if seed is not None or log_of is not None or dry_run or as_json:
                raise click.UsageError("--seed, --log-of, --dry-run and --json belong to --now")
            step_back(topology.retrain)
            _follow(topology, beside_worker=beside_worker)
            return
        reach(topology.kafka)
        step_back(topology.retrain)
        from stream_tgat.renewal.lease import Lease
        from stream_tgat.renewal.retrain import RetrainRequest, retrain_once

        log = None if log_of is None else log_of_release(topology, log_of)
        asked = RetrainRequest(seed=seed, log=log, dry_run=dry_run)
        with Lease(topology) as lease, watching(console(stderr=as_json)) as watcher:
            outcome = retrain_once(topology, asked, replace(watcher, before_promotion=lease.check))
        if as_json:
            console().print(orjson.dumps(outcome, option=orjson.OPT_INDENT_2).decode(), markup=False)
        else:
            show_result(outcome, console())

    return retrain


def _follow(topology: Topology, *, beside_worker: bool) -> None:
    """Until a signal, or until the worker beside it is gone: then its end of our input closes."""
    from stream_tgat.renewal.follow import follow

    begin(topology.log.format, logging.INFO, prefix="renewal: ")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if beside_worker:
        threading.Thread(target=_stop_with_worker, daemon=True).start()
    with suppress(KeyboardInterrupt):
        follow(topology)


def _stop_with_worker() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def show_result(outcome: RetrainResult, out: Console) -> None:
    """The figures of both models side by side, and what was decided."""
    part = outcome.part
    begin, end = when(part.begin), when(part.end)
    other = "there is no other" if outcome.serving_release is None else f"serving is {outcome.serving_release}"
    out.print(f"Compared ({other}) on {part.count:,} of {outcome.interactions:,} interactions,")
    out.print(f"{begin} to {end} UTC: {part.note}", style=None if part.unseen else "yellow", markup=False)
    out.print(_table(outcome))
    for note in outcome.notes:
        out.print(note, style="yellow", markup=False)
    out.print(_decision(outcome), markup=False)
    if outcome.measured is not None:
        out.print(
            f"What was measured is {outcome.measured}; its refit has learnt from the newest part too.", markup=False
        )
    if outcome.release is not None:
        out.print(f"Release [bold]{outcome.release}[/] in {outcome.store}, after {outcome.seconds:.0f} s")
    if outcome.release is not None and not outcome.promoted:
        out.print(f"To let it serve all the same: faust -A stream_tgat release promote {outcome.release}")
    if outcome.rules.figures:
        out.print(rules_table(outcome.rules))
    out.print(outcome.rules.sentence, markup=False, soft_wrap=False)


@contextmanager
def watching(out: Console) -> Iterator[RetrainCallbacks]:
    """Progress of a retraining on the terminal, one bar for each of its steps; what was read is said on `out`."""
    from stream_tgat.renewal.retrain import RetrainCallbacks
    from stream_tgat.training.epochs import Epoch, TrainingCallbacks

    with step_bars() as bars:
        tasks: dict[str, TaskID] = {}

        def step(name: str, done: int, total: int, description: str | None = None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total, description=description or name)

        judged = ""

        def on_batch(epoch: int, done: int, total: int, loss: float) -> None:
            step("Training", done, total, f"Training, epoch {epoch + 1}, loss {loss:.3f}{judged}")

        def on_epoch(epoch: Epoch) -> None:
            nonlocal judged
            judged = f", validation AP {epoch.average_precision:.3f}"

        def on_refit(epoch: int, done: int, total: int, loss: float) -> None:
            step("Refitting", done, total, f"Refitting on all of the log, epoch {epoch + 1}, loss {loss:.3f}")

        yield RetrainCallbacks(
            on_read=lambda topic, done, total: step(f"Reading {topic}", done, total),
            on_log=lambda part: tell_part(part, out),
            training=TrainingCallbacks(on_batch, on_epoch),
            refitting=TrainingCallbacks(on_refit),
            on_measure=lambda which, done, total: step(f"Measuring the {which} model", done, total),
        )


def _decision(outcome: RetrainResult) -> str:
    """In one sentence."""
    if outcome.promoted:
        return f"Promoted, and serves from now on as version {outcome.version}: {outcome.reason}."
    if outcome.passed:
        return f"Would be promoted: {outcome.reason}."
    return f"{'Would be kept' if outcome.release is None else 'Kept'}, not promoted: {outcome.reason}."


_FIGURES: Mapping[str, Callable[[HeadSummary], float]] = {
    "auc": lambda head: head.auc,
    "average_precision": lambda head: head.average_precision,
    "brier": lambda head: head.brier,
}


def _table(outcome: RetrainResult) -> Table:
    """Every figure of both models, links first, and which of them decide."""
    table = Table("", "figure", "answers", "rarer", "new", "serving", "change", "decides")
    for column in table.columns[2:7]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    new, serving = outcome.new, outcome.serving
    deciding = {each.figure: each for each in outcome.compared}

    def add(of: str, shown: str, figure: str, counts: tuple[int, int], mine: float, theirs: float | None) -> None:
        each = deciding.get(f"{of}.{figure}")
        table.add_row(
            escape(shown),
            FIGURES[figure],
            *(f"{count:,}" for count in counts),
            _number(mine),
            _number(math.nan if theirs is None else theirs),
            "" if theirs is None else _signed(mine - theirs),
            "" if each is None else "too few" if each.no_say else "yes",
        )

    theirs = None if serving is None else serving.average_precision
    add("links", "links", "average_precision", (new.links, new.links), new.average_precision, theirs)
    others = {} if serving is None else {head.head: head for head in serving.heads}
    for head in new.heads:
        other = others.get(head.head)
        for figure, of in _FIGURES.items():
            counts = head.answers, head.rarer
            add(f"heads.{head.head}", head.head, figure, counts, of(head), None if other is None else of(other))
    return table


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.4f}"
