"""`train`: a release from what is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from stream_tgat.brokers import reach
from stream_tgat.commands.base import Command, console, step_bars, when
from stream_tgat.commands.cards import rules_table
from stream_tgat.commands.records import Read, open_records
from stream_tgat.durations import in_words
from stream_tgat.errors import ReleaseError
from stream_tgat.topology import Topology

if TYPE_CHECKING:
    from stream_tgat.training.epochs import TrainingCallbacks
    from stream_tgat.training.log import LogBuilder, TrainingLog
    from stream_tgat.training.log_part import LogPart, ReadingProgress, Wanted
    from stream_tgat.training.pipeline import Trained
    from stream_tgat.training.registry import RulesNote
    from stream_tgat.training.window import Window
    from stream_tgat.wire import InputTopic

MANIFEST_FILE = "manifest.json"
_TELL = 10_000


def train_command(topology: Topology) -> click.Command:
    """`train`."""

    @click.command(cls=Command)
    @click.option(
        "--epochs", type=click.IntRange(min=1), help="Passes of the encoder, at most. Default: training.epochs"
    )
    @click.option("--seed", type=click.IntRange(min=0), help="The same log and seed give the same weights.")
    @click.option(
        "--max-interactions", type=click.IntRange(min=1), help="Train on the newest so many only. Default: all of them"
    )
    @click.option(
        "--log-of", metavar="RELEASE", help="Train on what this release was trained on, as far as it is still there."
    )
    @click.option(
        "--from",
        "file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Train on the interactions of this file, not of the log: JSON lines, CSV, Parquet or Arrow.",
    )
    @click.option(
        "--labels-from",
        "labels",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Labels beside it.",
    )
    @click.option(
        "--nodes-from", "nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Node features."
    )
    @click.option(
        "--precision",
        type=click.FloatRange(0, 1),
        help="Alert where this share of alerts was right. Default: training.precision.",
    )
    @click.option("--device", help="auto, cpu, cuda or cuda:1. Default: serving.device, as for workers.")
    @click.option(
        "--run",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep a checkpoint and a log of the epochs in this folder; after a kill, the same command goes on.",
    )
    @click.option(
        "--tensorboard",
        "tensorboard_folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="Also write figures for TensorBoard here (needs the package `tensorboard`).",
    )
    @click.option("--no-promote", is_flag=True, help="Keep the release, but let the present one go on serving.")
    @click.option("--promote-anyway", is_flag=True, help="Let it serve though it is worse than the best simple rules.")
    def train(
        epochs: int | None,
        seed: int | None,
        max_interactions: int | None,
        log_of: str | None,
        file: Path | None,
        labels: Path | None,
        nodes: Path | None,
        precision: float | None,
        device: str | None,
        run: Path | None,
        tensorboard_folder: Path | None,
        no_promote: bool,
        promote_anyway: bool,
    ) -> None:
        """Train a release from what is in the log, and let it serve.

        Reads `interactions`, `nodes` and `labels` from their beginning to their present end. The encoder learns to tell
        which item a user meets next; then each prediction head learns its label, from labels known by now. Records that
        the stream would refuse are skipped and counted.

        On the newest part (training.test_share), which it has not learnt from, the model is then compared with simple
        rules that need no model. If it is worse than the best of them it is kept, and does not serve.

          faust -A stream_tgat train
          faust -A stream_tgat train --seed 7 --epochs 20 --no-promote
          faust -A stream_tgat train --epochs 50 --run runs/long
          faust -A stream_tgat train --log-of 1f2e3d4c --no-promote

        A history that is not in Kafka is read from files, by the same [input] of the topology, and bad rows are skipped
        and counted. With --no-promote no broker is asked.

          faust -A stream_tgat train --from orders.parquet --labels-from returns.csv.gz
        """
        from stream_tgat.nn.device import chosen_device
        from stream_tgat.training import pipeline, promotion
        from stream_tgat.training.checkpoint import Checkpoint
        from stream_tgat.training.log_part import Wanted
        from stream_tgat.training.registry import ReleaseStore, new_card
        from stream_tgat.training.window import Window

        if log_of and (max_interactions or run):
            raise click.UsageError("--log-of names all of the log; leave --max-interactions and --run out")
        if file and (log_of or run):
            raise click.UsageError("--from names all that is learnt from; leave --log-of and --run out")
        if (labels or nodes) and not file:
            raise click.UsageError("--labels-from and --nodes-from go with --from")
        if no_promote and promote_anyway:
            raise click.UsageError("--no-promote and --promote-anyway exclude each other")
        out, window = console(), Window(interactions=max_interactions)
        asks = not (file and no_promote)
        if asks:
            reach(topology.kafka)
        parent = promotion.serving_or_none(topology) if asks else None
        if file:
            part = _read_files(topology, {"interactions": file, "labels": labels, "nodes": nodes}, window)
        else:
            part = _read(topology, log_of_release(topology, log_of) if log_of else Wanted(window=window), run)
        tell_part(part)
        log = part.log
        links = pipeline.limited(pipeline.link_settings(topology), epochs, seed)
        heads = replace(pipeline.head_settings(topology), seed=links.seed)
        if precision is not None:
            heads = replace(heads, precision=precision or None)
        checkpoint = None if run is None else Checkpoint(run)
        with training_bars() as bars, _figures(tensorboard_folder) as figures:
            on = chosen_device(device or topology.serving.device)
            trained = pipeline.train(topology, log, links, heads, bars.and_also(figures), on, checkpoint)
        with status_line("Comparing with simple rules"):
            rules = _beside_rules(topology, log, trained, on)
        card = new_card(
            topology,
            trained.model.config,
            manifest=part.manifest,
            topic_ids=part.topic_ids,
            log_since=part.since,
            metrics=trained.figures(),
            parent=parent.record.release if parent else None,
            seed=links.seed,
            learnt_until=trained.learnt_until,
            rules=rules,
        )
        release = ReleaseStore(topology.releases.store).save(trained.model, card)
        out.print(_table(trained))
        out.print(f"Release [bold]{release.name}[/] in {release.store}")
        if no_promote or (rules.verdict == "worse" and not promote_anyway):
            why = "as was asked" if no_promote else "as it is worse than a simple rule"
            out.print(f"Not promoted, {why}. To let it serve: faust -A stream_tgat release promote {release.name}")
            if not topology.model.pair_features and "links.average_precision" in rules.worse:
                out.print("Where the same pairs meet again, model.pair_features = true makes a better one.")
        else:
            try:
                version = promotion.promote(topology, release).version
            except ReleaseError as error:
                raise click.ClickException(str(error)) from error
            out.print(f"Serves from now on, as version {version}.")
        if rules.figures:
            out.print(rules_table(rules))
        out.print(rules.sentence, markup=False, soft_wrap=False)

    return train


def _beside_rules(topology: Topology, log: TrainingLog, trained: Trained, device: str) -> RulesNote:
    """How a model compares with the best simple rules on the part of the log that it has not learnt from."""
    from stream_tgat.evaluation.beside_rules import beside_rules, not_measured
    from stream_tgat.evaluation.comparison import ask
    from stream_tgat.evaluation.measured_part import part_for_both

    if trained.learnt_until > log.interactions.time[-1]:
        return not_measured("it has learnt from all of the log (training.test_share is 0)")
    part = part_for_both(log.interactions.time, trained.learnt_until, None, 0)
    answers = ask(trained.model.to(device), log, part, topology.heads, topology.training.seed)
    trained.model.cpu()
    return beside_rules(answers, log, part, topology)


@contextmanager
def status_line(what: str) -> Iterator[None]:
    """A line on standard error, such as "Reading the log", that is there while the block runs."""
    with console(stderr=True).status(what):
        yield


def log_of_release(topology: Topology, name: str) -> Wanted:
    """The part of the log that a release was trained on."""
    from stream_tgat.training.log_part import read_by
    from stream_tgat.training.registry import ReleaseStore

    return read_by(ReleaseStore(topology.releases.store).find(name).card)


def _read_files(topology: Topology, files: Mapping[InputTopic, Path | None], window: Window) -> LogPart:
    """A history in files: read row by row, of which the builder keeps what the window holds."""
    from stream_tgat.training.log import LogBuilder
    from stream_tgat.training.log_part import LogPart

    builder = LogBuilder(topology.of_rows(), window)
    for topic, path in files.items():
        if path is None:
            continue
        with open_records(path, topology, topic) as rows, step_bars() as bars:
            task = bars.add_task(f"Reading {path.name}", total=1000)
            for row in rows:
                _add(builder, topic, row)
                if row.number % _TELL == 0:
                    bars.update(task, completed=round(1000 * rows.done))
    return LogPart(builder.build(), {}, builder.begin if isfinite(builder.begin) else None, ())


def _add(builder: LogBuilder, topic: InputTopic, row: Read) -> None:
    record = row.record
    if record is None:
        builder.skip(topic, row.reason)
    elif topic == "interactions":
        builder.interaction(record.value, record.headers, 0, row.number)
    elif topic == "labels":
        builder.label(record.value, record.headers)
    else:
        builder.node(record.value, record.headers)


def _read(topology: Topology, wanted: Wanted, run: Path | None) -> LogPart:
    """What is wanted of the log; in the folder of a run, as it was when the run began."""
    from stream_tgat.training import log_part

    file = None if run is None else run / MANIFEST_FILE
    kept = None if file is None else log_part.kept_manifest(file)
    if kept is not None:
        manifest, ids = kept
        wanted = replace(wanted, manifest=manifest, topic_ids=ids)
    with reading_bars() as bars:
        part = log_part.read_part(topology, wanted, bars)
    if file is not None and kept is None:
        log_part.keep_manifest(file, part.manifest, part.topic_ids)
    return part


@contextmanager
def _figures(folder: Path | None) -> Iterator[TrainingCallbacks]:
    """Who writes for TensorBoard; nobody without a folder."""
    from stream_tgat.training.epochs import TrainingCallbacks
    from stream_tgat.training.tensorboard import tensorboard

    if folder is None:
        yield TrainingCallbacks()
    else:
        with tensorboard(folder) as told:
            yield told


@contextmanager
def reading_bars() -> Iterator[ReadingProgress]:
    """Progress of reading the log on the terminal, a bar for each topic."""
    with step_bars() as bars:
        tasks: dict[str, TaskID] = {}

        def on_read(topic: str, done: int, total: int) -> None:
            if topic not in tasks:
                tasks[topic] = bars.add_task(f"Reading {topic}")
            bars.update(tasks[topic], completed=done, total=total)

        yield on_read


@contextmanager
def training_bars() -> Iterator[TrainingCallbacks]:
    """Progress of the encoder's training on the terminal."""
    from stream_tgat.training.epochs import Epoch, TrainingCallbacks

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("validation AP {task.fields[precision]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task("Encoder", total=None, loss=float("nan"), precision="-")

        def on_batch(epoch: int, done: int, total: int, loss: float) -> None:
            bars.update(task, description=f"Encoder, epoch {epoch + 1}", completed=done, total=total, loss=loss)

        def on_epoch(epoch: Epoch) -> None:
            bars.update(task, precision=f"{epoch.average_precision:.3f}")

        yield TrainingCallbacks(on_batch, on_epoch)


def tell_part(part: LogPart, out: Console | None = None) -> None:
    """Say how much of the log was read, and what of it is no longer there."""
    out = out or console()
    tell_log(part.log, out)
    if part.since is not None:
        out.print(f"from {when(part.since)} UTC on; what is older is left out")
    for each in part.missing:
        out.print(each, style="yellow", markup=False)


def tell_log(log: TrainingLog, out: Console | None = None) -> None:
    """Say how much there is in a log, what of it was skipped, and how late answers are."""
    out = out or console()
    labels = ", ".join(f"{len(each):,} {name}" for name, each in log.labels.items()) or "none"
    out.print(f"{len(log.interactions):,} interactions of {len(log.nodes):,} nodes; labels: {labels}")
    for topic, reasons in log.skipped.items():
        for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:5]:
            out.print(f"[yellow]skipped {count:,} records of {topic}:[/] {escape(reason)}", soft_wrap=False)
    for unmatched in log.unmatched:
        out.print(f"[yellow]not used:[/] {escape(str(unmatched))}", soft_wrap=False)
    for name, each in log.labels.items():
        if each.maturity.delay_s:
            newer = int((log.interactions.time[each.event] > each.maturity.complete_until).sum())
            how = "the topology says" if each.maturity.stated else "the log shows"
            out.print(
                f"{escape(name)}: answers are complete {in_words(each.maturity.delay_s)} after the question, as {how}; "
                f"{newer:,} answers to newer ones wait",
                soft_wrap=False,
            )


def _table(trained: Trained) -> Table:
    """What was learnt, one row for the links and one for each head."""
    table = Table("task", "measured on", "answers", "base rate", "AUC", "average precision", "alert above")
    for part in trained.link_metrics:
        table.add_row("links", part.part, f"{part.count:,}", "0.500", "", f"{part.average_precision:.3f}", "")
    for head in trained.heads:
        found = trained.head_metrics[head.name]
        at = trained.model.config.head_names.index(head.name)
        threshold = f"{float(trained.model.thresholds[at]):.3f}" if head.trained else "never: too few labels"
        table.add_row(
            head.name,
            trained.head_part,
            f"{found.count:,}",
            f"{found.base_rate:.3f}",
            f"{found.auc:.3f}",
            f"{found.average_precision:.3f}",
            threshold,
        )
    return table
