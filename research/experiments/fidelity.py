"""Is this TGAT the one that others have measured? DyGLib's model by DyGLib's protocol, beside the published figure.

Nodes have features that are all zero, frequencies are learnt as they are, batches come in the order of time, and the
figure is the mean over batches of 200 of the average precision on all test interactions, with random negatives.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from research.baselines.temporal import TemporalMethod
from research.experiments.link_prediction import runs
from research.experiments.options import (
    command_line,
    data_argument,
    device_option,
    link_task_of,
    out_option,
    seeds_option,
    takes_data,
    told,
)
from research.experiments.queue import ResultOrigin, fill
from stream_tgat.datasets.table import Columns
from stream_tgat.evaluation.link_prediction import LinkProtocol, LinkTask, MethodReport, NegativeKind
from stream_tgat.training.links import LinkSettings

PUBLISHED = {"collegemsg": 0.7963}
"""Average precision of TGAT on all test interactions with random negatives (Yu et al., 2023), by data set."""

WITHIN = 0.02
"""How near our mean over seeds has to come."""

ZERO_FEATURES = 172

PROTOCOL = LinkProtocol(kinds=(NegativeKind.RANDOM,), ranked=0, batch_size=200)

DYGLIB = TemporalMethod(
    "TGAT as in DyGLib",
    preset="dyglib",
    width=172,
    time_width=100,
    layers=2,
    attention_heads=2,
    neighbours=20,
    candidates=20,
    settings=LinkSettings(
        epochs=10, batch_size=200, learning_rate=1e-4, patience=20, validation_events=None, shuffle=False
    ),
)
"""The published options, but for `epochs`: there it is 100 at most."""


def zero_featured(task: LinkTask) -> LinkTask:
    """The same task on a graph whose nodes have nothing of their own."""
    return replace(task, node_features=np.zeros((task.node_count, ZERO_FEATURES), np.float32))


def make(
    task: LinkTask,
    method: TemporalMethod,
    seeds: int,
    folder: Path,
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),  # noqa: B008  # a value
) -> list[MethodReport]:
    """A report for each seed, after running what is missing in the folder."""
    variant = f"d{method.width}e{method.settings.epochs}"
    return fill(folder, MethodReport, runs(task, [method], seeds, variant, folder, PROTOCOL), on_run, origin)


@click.command("fidelity")
@data_argument
@seeds_option(3, "Runs.")
@click.option("--epochs", default=DYGLIB.settings.epochs, show_default=True, type=click.IntRange(1), help="At most.")
@device_option
@out_option
@takes_data
def command(data: Path, seeds: int, epochs: int, device: str, out: Path, columns: Columns) -> None:
    """DyGLib's TGAT by DyGLib's protocol on the interactions of DATA, to be compared with its published figure.

    DATA: as `links --help` says.
    """
    with told() as on_run:
        made = make(
            zero_featured(link_task_of(data, columns)),
            replace(DYGLIB, settings=replace(DYGLIB.settings, epochs=epochs), device=device),
            seeds,
            out / "fidelity",
            on_run,
            ResultOrigin(command_line()),
        )
    for report in made:
        click.echo(f"seed {report.seed}: AP of batches {100 * report.test.pair().batch_average_precision:.2f} %")
