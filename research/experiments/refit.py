"""What a refit is worth: the model that was measured, and one made by the same recipe from all of the log."""

from collections.abc import Callable
from pathlib import Path

import click

from research.experiments.options import told
from research.experiments.queue import ResultOrigin, Run, fill, key_of
from research.experiments.retraining import ROUNDS, answers_run
from research.experiments.stream_command import StreamCommand, stream_options
from research.prequential import PrequentialStream, StepAnswers
from research.prequential.refit import MeasuredMaker, RefitReport, RefittedMaker, refit_report


def make(
    stream: PrequentialStream,
    measured: MeasuredMaker,
    seeds: int,
    variant: str,
    folder: Path,
    kept: Path,
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),  # noqa: B008  # a value
    rounds: int = ROUNDS,
) -> list[RefitReport]:
    """A report for each step and one for all of them, after running what is missing.

    folder: of reports   kept: of what models say
    """
    steps = range(len(stream.cuts))
    refitted = RefittedMaker(measured)
    # A step's models one after the other: the second needs to know how long the first one learnt.
    runs = [
        answers_run(stream, maker, step, seed, variant, kept)
        for seed in range(seeds)
        for step in steps
        for maker in (measured, refitted)
    ]
    made = fill(kept, StepAnswers, runs, on_run, origin)
    ones, others = (
        [[each for each in made if (each.maker, each.seed) == (maker.name, seed)] for seed in range(seeds)]
        for maker in (measured, refitted)
    )

    def report(some: tuple[int, ...]) -> Run[RefitReport]:
        where = str(some[0]) if len(some) == 1 else "mean"
        key = key_of(stream.name, variant, where, str(seeds))
        return Run(key, lambda: refit_report(stream, ones, others, some, rounds))

    return fill(folder, RefitReport, [report((step,)) for step in steps] + [report(tuple(steps))], on_run, origin)


@click.command("refit")
@stream_options(every_days=56.0, scores=Path("runs/refit"))
def command(asked: StreamCommand) -> None:
    """Compare the model that a retraining of DATA measures with its refit, in the time that follows both.

    Of each step the newest 15 % of the log are held out; encoder and heads learn from the rest, and validation says
    when the encoder stops. The refit learns from all of the log, for as many epochs.
    """
    with told() as on_run:
        stream, _ = asked.read()
        measured = MeasuredMaker(asked.network.encoder())
        make(stream, measured, asked.seeds, asked.variant, asked.out / "refit", asked.scores, on_run, asked.origin)
