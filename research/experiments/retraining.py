"""Does renewal pay? A stream in time order: the first model for ever, against models made anew as it goes on.

What the models say is kept in one folder, large and made once; the figures of each policy and step in another.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from research.baselines.temporal import TemporalMethod
from research.experiments.options import told
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.experiments.stream_command import StreamCommand, stream_options
from research.labels.trees import BoostedTrees, Features
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
)
from research.prequential.step_report import Made, age_report, step_report

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


@click.command("retraining")
@stream_options(every_days=28.0, scores=Path("runs/retraining"))
def command(asked: StreamCommand) -> None:
    """Go through DATA in time order: the first model for ever against models made anew at each step.

    A model learns links before its step and answers known by then, and answers the questions of the step. The
    embeddings are those of one model: neighbours' states are of the weights that serve.
    """
    with told() as on_run:
        stream, features = asked.read()
        of = makers(asked.network.encoder(), features)
        make(stream, of, asked.seeds, asked.variant, asked.out / "retraining", asked.scores, on_run, asked.origin)
