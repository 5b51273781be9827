"""Does renewal pay? A stream in time order: the first model for ever, against models made anew as it goes on.

What the models say is kept in one folder, large and made once; the figures of each policy and step in another.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from research.baselines.temporal import TemporalMethod
from research.datasets.groceries import DAY_S, START, load_groceries
from research.datasets.interests import InterestFeatures, interest_task
from research.datasets.oulad import load_oulad
from research.experiments.network import Network, network_options
from research.experiments.options import CHOICES, command_line
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.labels import LabelTask
from research.labels.trees import BoostedTrees, Features, with_running_aggregates
from research.prequential import (
    AgeReport,
    FirstEncoder,
    Maker,
    NewModel,
    Policy,
    PrequentialStream,
    StepAnswers,
    StepReport,
    Trees,
    answers,
    cut_into_steps,
)
from research.prequential.step_report import Made, age_report, step_report
from stream_tgat.errors import StreamTgatError
from stream_tgat.nn.threads import use_one_thread

ROUNDS = 500
"""Of the bootstrap over users."""


def makers(encoder: TemporalMethod, features: Features) -> tuple[Maker, ...]:
    """Who makes models, beginning with the two whose first models are one and the same."""
    trees = BoostedTrees((features,))
    return NewModel(encoder), FirstEncoder(encoder), Trees(trees), Trees(trees, as_first=True)


def make(
    stream: PrequentialStream,
    of: Sequence[Maker],
    seeds: int,
    variant: str,
    folder: Path,
    kept: Path,
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),  # noqa: B008  # a value
    rounds: int = ROUNDS,
) -> list[StepReport]:
    """The figures of every maker and policy, after running what is missing.

    folder: of figures, a record each policy and step; what age costs is kept beside it   kept: of what models say
    """
    every = [
        _made(stream, maker, 1 if isinstance(maker, Trees) else seeds, variant, kept, on_run, origin) for maker in of
    ]
    first: dict[bool, Made] = {}
    result: list[StepReport] = []
    for maker, made in zip(of, every, strict=True):
        compared = first.setdefault(isinstance(maker, Trees), made)
        reports = _step_runs(stream, maker, made, compared, variant, rounds)
        result += fill(folder, StepReport, reports, on_run, origin)
        if Policy.FIRST in policies(maker):
            ages = _age_runs(stream, maker, made, variant, rounds)
            fill(folder.parent / "retraining-ages", AgeReport, ages, on_run, origin)
    return result


def policies(maker: Maker) -> tuple[Policy, ...]:
    """Those that are worth a row: the first models of all makers of a kind are the same."""
    if isinstance(maker, NewModel):
        return tuple(Policy)
    if isinstance(maker, Trees) and not maker.as_first:
        return Policy.FIRST, Policy.SCHEDULE
    return (Policy.SCHEDULE,)


def _made(
    stream: PrequentialStream,
    maker: Maker,
    seeds: int,
    variant: str,
    kept: Path,
    on_run: Callable[[str, bool], None],
    origin: ResultOrigin,
) -> Made:
    """What the models of all steps say, by seed."""
    steps = range(len(stream.cuts))
    return [
        fill(
            kept, StepAnswers, [answers_run(stream, maker, step, seed, variant, kept) for step in steps], on_run, origin
        )
        for seed in range(seeds)
    ]


def answers_run(
    stream: PrequentialStream, maker: Maker, step: int, seed: int, variant: str, kept: Path
) -> Run[StepAnswers]:
    """What the model that a maker makes at a step says. kept: folder of what models say"""
    key = key_of(stream.name, variant, maker.name, str(step), str(seed))
    scratch = scratch_of(kept, key)
    return Run(key, lambda: answers(stream, maker, step, seed, scratch), maker.device, scratch)


def _step_runs(
    stream: PrequentialStream, maker: Maker, made: Made, first: Made, variant: str, rounds: int
) -> Iterator[Run[StepReport]]:
    """A run for each policy and step; then for all steps in which policies can differ, apart and pooled."""
    every = range(len(stream.cuts))
    scopes = [((step,), False) for step in every] + [(tuple(every[1:]), pooled) for pooled in (False, True)]
    for policy in policies(maker):
        for steps, pooled in scopes:
            where = str(steps[0]) if len(steps) == 1 and not pooled else "pooled" if pooled else "mean"
            key = key_of(stream.name, variant, maker.name, policy, where, str(len(made)))
            yield Run(key, _step_work(stream, maker, policy, made, first, steps, pooled, rounds))


def _step_work(
    stream: PrequentialStream,
    maker: Maker,
    policy: Policy,
    made: Made,
    first: Made,
    steps: Sequence[int],
    pooled: bool,
    rounds: int,
) -> Callable[[], StepReport]:
    return lambda: step_report(stream, maker.name, policy, made, first, steps, pooled, rounds)


def _age_runs(
    stream: PrequentialStream, maker: Maker, made: Made, variant: str, rounds: int
) -> Iterator[Run[AgeReport]]:
    def work(age: int) -> Callable[[], AgeReport]:
        return lambda: age_report(stream, maker.name, made, age, rounds)

    for age in range(1, len(stream.cuts)):
        yield Run(key_of(stream.name, variant, maker.name, f"age{age}", str(len(made))), work(age))


def stream_options(every_days: float, scores: Path) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The argument and options of a command that goes through DATA; defaults: of --every-days, and of --scores."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    options = (
        click.argument("data", type=click.Choice(["oulad", "groceries"])),
        click.option("--folder", type=folder, help="Of oulad."),
        click.option(
            "--households", default=0, show_default=True, type=click.IntRange(0), help="Of groceries; 0: all."
        ),
        click.option(
            "--first-days", default=140.0, show_default=True, type=float, help="Until the first model is made."
        ),
        click.option(
            "--every-days", default=every_days, show_default=True, type=float, help="From one retraining to the next."
        ),
        click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="Runs of each network."),
        network_options(layers=1, fewest_layers=1, fewest_neighbours=1, epochs=5),
        click.option(
            "--out",
            default=Path("runs/experiments"),
            show_default=True,
            type=click.Path(path_type=Path),
            help="Where figures are kept; what is there is not made again.",
        ),
        click.option(
            "--scores",
            default=scores,
            show_default=True,
            type=click.Path(path_type=Path),
            help="Where what the models say is kept; what is there is not made again.",
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def variant_of(network: Network, first_days: float, every_days: float, households: int) -> str:
    """What tells the results of these options from those of others."""
    of = f"of{households}" if households else ""
    return f"{network.sizes}{network.rate}f{first_days:g}s{every_days:g}{of}"


@click.command("retraining")
@stream_options(every_days=28.0, scores=Path("runs/retraining"))
def command(
    network: Network,
    data: str,
    folder: Path | None,
    households: int,
    first_days: float,
    every_days: float,
    seeds: int,
    out: Path,
    scores: Path,
) -> None:
    """Go through DATA in time order: the first model for ever against models made anew at each step.

    A model learns links before its step and answers known by then, and answers the questions of the step. The
    embeddings are those of one model: neighbours' states are of the weights that serve.
    """
    use_one_thread()
    encoder = network.encoder()
    console = Console(stderr=True)
    try:
        task, features = task_of(data, folder, households, first_days * DAY_S)
        make(
            cut_into_steps(task, first_days * DAY_S, every_days * DAY_S),
            makers(encoder, features),
            seeds,
            variant_of(network, first_days, every_days, households),
            out / "retraining",
            scores,
            lambda key, there: console.print(f"{'have' if there else 'run '} {key}", highlight=False),
            ResultOrigin(command_line((*CHOICES, "scores"))),
        )
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem


def task_of(data: str, folder: Path | None, households: int, until_s: float) -> tuple[LabelTask, Features]:
    """The task of a data set, and the features for its trees; what is fitted to data sees the first `until_s` only."""
    if data == "oulad":
        if folder is None:
            raise click.BadParameter("give the folder with the data", param_hint="--folder")
        return load_oulad(folder), with_running_aggregates
    groceries = load_groceries(households or None, START + until_s)
    return interest_task(groceries), InterestFeatures(groceries)
