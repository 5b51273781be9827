"""What does it cost that rows keep the peer embeddings of old weights after a switch, until they are re-encoded?"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from research.baselines.temporal import TemporalMethod
from research.datasets.groceries import DAY_S
from research.experiments.network import Network, network_options
from research.experiments.options import command_line
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.experiments.retraining import ROUNDS, task_of
from research.labels.methods import Heads
from research.prequential import PrequentialStream, cut_into_steps
from research.prequential.staleness import StalenessReport, measure
from stream_tgat.errors import StreamTgatError
from stream_tgat.nn.threads import use_one_thread

BINS = (0, 1, 5, 10, 20)
"""Interactions since the switch, from which on questions are told apart."""


def run(
    stream: PrequentialStream,
    encoder: TemporalMethod,
    seeds: tuple[int, int],
    days: float,
    variant: str,
    folder: Path,
    heads: Heads | None = None,
    rounds: int = ROUNDS,
) -> Run[StalenessReport]:
    """The switch at the stream's second step, by seeds of the old and the new model. folder: of results"""
    key = key_of(stream.name, variant, f"{seeds[0]}to{seeds[1]}")
    scratch = scratch_of(folder, key)
    work = partial(measure, stream, 1, encoder, heads or Heads(), seeds, days, BINS, rounds, scratch)
    return Run(key, work, encoder.device, scratch)


@click.command("staleness")
@click.argument("data", type=click.Choice(["oulad", "groceries"]))
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Of oulad.")
@click.option("--households", default=0, show_default=True, type=click.IntRange(0), help="Of groceries; 0: all.")
@click.option("--old-days", default=168.0, show_default=True, type=float, help="At which the old model is made.")
@click.option("--after-days", default=28.0, show_default=True, type=float, help="Until the new one takes over.")
@click.option("--days", default=28.0, show_default=True, type=float, help="To look at after that.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="Of both models alike.")
@network_options(layers=2, fewest_layers=2, fewest_neighbours=5, epochs=3)
@click.option("--other-seed", is_flag=True, help="Give the new model other random weights to begin with.")
@click.option("--out", default=Path("runs/experiments"), show_default=True, type=click.Path(path_type=Path),
              help="Where results are kept; what is there is not run again.")  # fmt: skip
def command(
    network: Network,
    data: str,
    folder: Path | None,
    households: int,
    old_days: float,
    after_days: float,
    days: float,
    seeds: int,
    other_seed: bool,
    out: Path,
) -> None:
    """Switch from a model of DATA to a newer one: its weights over old peer embeddings, and over new ones."""
    use_one_thread()
    encoder = replace(network.encoder(), candidates=network.neighbours)
    console = Console(stderr=True)
    variant = f"{network.sizes}{network.rate}o{old_days:g}a{after_days:g}t{days:g}" + (
        f"of{households}" if households else ""
    )
    try:
        task, _ = task_of(data, folder, households, old_days * DAY_S)
        stream = cut_into_steps(task, old_days * DAY_S, after_days * DAY_S)
        fill(
            out / "staleness",
            StalenessReport,
            [
                run(stream, encoder, (seed, seed + seeds * other_seed), days, variant, out / "staleness")
                for seed in range(seeds)
            ],
            lambda key, there: console.print(f"{'have' if there else 'run '} {key}", highlight=False),
            ResultOrigin(command_line()),
        )
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
