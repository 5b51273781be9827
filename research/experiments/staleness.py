"""What does it cost that rows keep the peer embeddings of old weights after a switch, until they are re-encoded?"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from research.baselines.temporal import TemporalMethod
from research.datasets.groceries import DAY_S
from research.experiments.network import Network, network_options
from research.experiments.options import command_line, households_option, out_option, seeds_option, told
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.experiments.retraining import ROUNDS
from research.experiments.stream_command import task_of
from research.labels.methods import Heads
from research.prequential import PrequentialStream, cut_into_steps
from research.prequential.staleness import StalenessReport, measure

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
@households_option
@click.option("--old-days", default=168.0, show_default=True, type=float, help="At which the old model is made.")
@click.option("--after-days", default=28.0, show_default=True, type=float, help="Until the new one takes over.")
@click.option("--days", default=28.0, show_default=True, type=float, help="To look at after that.")
@seeds_option(1, "Of both models alike.")
@network_options(layers=2, fewest_layers=2, fewest_neighbours=5, epochs=3)
@click.option("--other-seed", is_flag=True, help="Give the new model other random weights to begin with.")
@out_option
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
    encoder = replace(network.encoder(), candidates=network.neighbours)
    variant = f"{network.sizes}{network.rate}o{old_days:g}a{after_days:g}t{days:g}" + (
        f"of{households}" if households else ""
    )
    with told() as on_run:
        task, _ = task_of(data, folder, households, old_days * DAY_S)
        stream = cut_into_steps(task, old_days * DAY_S, after_days * DAY_S)
        fill(
            out / "staleness",
            StalenessReport,
            [
                run(stream, encoder, (seed, seed + seeds * other_seed), days, variant, out / "staleness")
                for seed in range(seeds)
            ],
            on_run,
            ResultOrigin(command_line()),
        )
