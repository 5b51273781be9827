"""The paper's ablations on link prediction: TGAT with one choice changed, all else equal, mean (std) over seeds.

A series is a list of choices that differ in one field; runs that two series share are made once. Beside the figures
stands what an epoch of training took.
"""

import sys
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import click

from research.baselines.time_encodings import TimeEncodingKind
from research.baselines.varied import VariedTGAT
from research.experiments.options import (
    command_line,
    data_argument,
    device_option,
    learning_rate_option,
    link_task_of,
    out_option,
    patience_option,
    seeds_option,
    takes_data,
    told,
)
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from stream_tgat.datasets.table import Columns
from stream_tgat.evaluation.link_prediction import LinkProtocol, LinkReport, LinkTask, NegativeKind, Part, evaluate
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.training.checkpoint import LOG_FILE, Checkpoint
from stream_tgat.training.epochs import read_epochs
from stream_tgat.training.links import LinkSettings, TrainingSampling

PROTOCOL = LinkProtocol(kinds=(NegativeKind.RANDOM, NegativeKind.HISTORICAL), ranked=1000)

WIDTHS = (60, 80, 100, 120, 140)
HEADS = (1, 2, 3, 4, 5)
LAYERS = (1, 2, 3)
SAMPLINGS: tuple[TrainingSampling, ...] = ("recent", "inverse_timespan", "uniform")


@dataclass(frozen=True)
class Choice:
    """What an ablation may change. width: D   time_width: T, the paper's 2d   layers: L   neighbours: K

    candidates: the newest interactions that neighbours are sampled from
    """

    encoding: TimeEncodingKind = TimeEncodingKind.LOG
    sampling: TrainingSampling = "recent"
    width: int = 60
    time_width: int = 60
    attention_heads: int = 2
    layers: int = 2
    neighbours: int = 20
    candidates: int = 100
    activity: bool = False
    epochs: int = 50
    patience: int = 3
    learning_rate: float = 1e-3

    def method(self) -> VariedTGAT:
        """TGAT as it is chosen."""
        settings = LinkSettings(epochs=self.epochs, patience=self.patience, learning_rate=self.learning_rate)
        return VariedTGAT(
            "TGAT",
            activity=self.activity,
            width=self.width,
            time_width=self.time_width,
            layers=self.layers,
            attention_heads=self.attention_heads,
            neighbours=self.neighbours,
            settings=settings,
            encoding=self.encoding,
            sampling=self.sampling,
            candidates=self.candidates,
        )

    def key(self) -> str:
        """For the name of a file."""
        sizes = f"d{self.width}t{self.time_width}h{self.attention_heads}l{self.layers}"
        sizes += f"k{self.neighbours}c{self.candidates}" + ("a" if self.activity else "")
        return f"{sizes}-e{self.epochs}p{self.patience}lr{self.learning_rate:g}-{self.sampling}-{self.encoding.name}"


@dataclass(frozen=True)
class AblationReport:
    """A choice on a task with one seed. epochs: trained, the best kept   epoch_s: CPU seconds, validation included; of
    those since the last kill, NaN if that came after them all.
    """

    choice: Choice
    seed: int
    epochs: int
    epoch_s: float
    validation: LinkReport
    test: LinkReport


def time_encodings(base: Choice) -> list[Choice]:
    """Every time encoding."""
    return [replace(base, encoding=kind) for kind in TimeEncodingKind]


def samplings(base: Choice) -> list[Choice]:
    """Every way to choose neighbours."""
    return [replace(base, sampling=sampling) for sampling in SAMPLINGS]


def sizes(base: Choice) -> list[Choice]:
    """Widths of embeddings and of time encodings, heads and layers, one at a time."""
    return [
        *(replace(base, width=width) for width in WIDTHS),
        *(replace(base, time_width=width) for width in WIDTHS),
        *(replace(base, attention_heads=heads) for heads in HEADS),
        *(replace(base, layers=layers) for layers in LAYERS),
    ]


SERIES: dict[str, Callable[[Choice], list[Choice]]] = {
    "time-encoding": time_encodings,
    "sampling": samplings,
    "sizes": sizes,
}


def runs(
    task: LinkTask,
    choices: Sequence[Choice],
    seeds: int,
    folder: Path,
    protocol: LinkProtocol = PROTOCOL,
    device: str = "cpu",
) -> list[Run[AblationReport]]:
    """A run for each different choice and seed. folder: of results."""

    def run(choice: Choice, seed: int) -> Run[AblationReport]:
        key = f"{key_of(task.name)}-{choice.key()}-{seed}"
        scratch = scratch_of(folder, key)
        return Run(key, lambda: measure(task, choice, seed, protocol, device, scratch), device, scratch)

    return [run(choice, seed) for choice in dict.fromkeys(choices) for seed in range(seeds)]


def measure(
    task: LinkTask,
    choice: Choice,
    seed: int,
    protocol: LinkProtocol = PROTOCOL,
    device: str = "cpu",
    scratch: Path | None = None,
) -> AblationReport:
    """Train a choice and evaluate it. scratch: where a killed training goes on, after its last whole epoch."""
    method, before = replace(choice.method(), device=device), 0
    if scratch is not None:
        method = replace(method, checkpoint=Checkpoint(scratch, every_batches=sys.maxsize))
        log = scratch / LOG_FILE
        before = len(read_epochs(log)) if log.exists() else 0
    start = clock.process_time()  # other work on the machine does not count
    scorer: ModelScorer = method.fit(task, seed)
    here = len(scorer.epochs) - before
    seconds = (clock.process_time() - start) / here if here else float("nan")
    validation = evaluate(task, scorer, Part.VALIDATION, protocol)
    test = evaluate(task, scorer, Part.TEST, protocol, validation.threshold)
    return AblationReport(choice, seed, len(scorer.epochs), round(seconds, 2), validation, test)


@dataclass(frozen=True)
class Series:
    """Reports that differ in one field of their choice only. task: its name   reports: by the values, in their order"""

    task: str
    varied: str
    reports: dict[str, list[AblationReport]] = field(default_factory=dict)


def series_of(reports: Sequence[AblationReport], varied: str) -> list[Series]:
    """All series over a field of Choice that some reports make, those of one value only left out."""
    groups: dict[tuple[object, ...], list[AblationReport]] = {}
    for report in reports:
        kept = tuple(getattr(report.choice, each.name) for each in fields(Choice) if each.name != varied)
        groups.setdefault((report.test.task, *kept), []).append(report)
    found = []
    for group in groups.values():
        values = sorted({getattr(report.choice, varied) for report in group}, key=_place)
        if len(values) > 1:
            by_value = {str(v): [r for r in group if getattr(r.choice, varied) == v] for v in values}
            found.append(Series(group[0].test.task, varied, by_value))
    return found


def _place(value: object) -> tuple[int, object]:
    """Where a value stands in a table: as its kind lists it, or by size."""
    if isinstance(value, TimeEncodingKind):
        return 0, list(TimeEncodingKind).index(value)
    return (0, SAMPLINGS.index(value)) if value in SAMPLINGS else (1, value)


@click.command("ablations")
@data_argument
@click.option("--series", multiple=True, type=click.Choice(list(SERIES)), help="Default: all of them.")
@seeds_option(3, "Runs of each choice.")
@click.option("--width", default=60, show_default=True, type=click.IntRange(2), help="Where it is not what changes.")
@click.option(
    "--time-width", default=60, show_default=True, type=click.IntRange(2), help="The same, of time encodings."
)
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1, 3), help="The same.")
@click.option("--epochs", default=50, show_default=True, type=click.IntRange(1), help="At most.")
@patience_option
@learning_rate_option
@click.option("--activity", is_flag=True, help="With the activity features.")
@device_option
@out_option
@takes_data
def ablations(
    data: Path,
    series: tuple[str, ...],
    seeds: int,
    width: int,
    time_width: int,
    layers: int,
    epochs: int,
    patience: int,
    learning_rate: float,
    activity: bool,
    device: str,
    out: Path,
    columns: Columns,
) -> None:
    """TGAT on the interactions of DATA with other time encodings, samplings and sizes, one changed at a time.

    DATA: as `links --help` says.
    """
    base = Choice(
        width=width,
        time_width=time_width,
        layers=layers,
        activity=activity,
        epochs=epochs,
        patience=patience,
        learning_rate=learning_rate,
    )
    choices = [choice for name in series or SERIES for choice in SERIES[name](base)]
    with told() as on_run:
        task = link_task_of(data, columns)
        fill(
            out / "ablations",
            AblationReport,
            runs(task, choices, seeds, out / "ablations", device=device),
            on_run,
            ResultOrigin(command_line()),
        )
