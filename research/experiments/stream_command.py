"""What the commands share that go through a data set in time order, step by step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from research.datasets.groceries import DAY_S, START, load_groceries
from research.datasets.interests import InterestFeatures, interest_task
from research.datasets.oulad import load_oulad
from research.experiments.network import Network, network_options
from research.experiments.options import CHOICES, command_line, households_option, out_option, seeds_option
from research.experiments.queue import ResultOrigin
from research.labels import LabelTask
from research.labels.trees import Features, with_running_aggregates
from research.prequential import PrequentialStream, cut_into_steps


@dataclass(frozen=True)
class StreamCommand:
    """What a command that goes through a data set in time order is told, each as on the command line."""

    network: Network
    data: str
    folder: Path | None
    households: int
    first_days: float
    every_days: float
    seeds: int
    out: Path
    scores: Path

    def read(self) -> tuple[PrequentialStream, Features]:
        """The data set cut into steps, and the features for its trees."""
        task, features = task_of(self.data, self.folder, self.households, self.first_days * DAY_S)
        return cut_into_steps(task, self.first_days * DAY_S, self.every_days * DAY_S), features

    @property
    def variant(self) -> str:
        """What tells the results of these options from those of others."""
        network, of = self.network, f"of{self.households}" if self.households else ""
        return f"{network.sizes}{network.rate}f{self.first_days:g}s{self.every_days:g}{of}"

    @property
    def origin(self) -> ResultOrigin:
        """The command that is running; where it keeps what models say changes no result."""
        return ResultOrigin(command_line((*CHOICES, "scores")))


def stream_options(every_days: float, scores: Path) -> Callable[[Callable[[StreamCommand], None]], Callable[..., None]]:
    """The argument and options of a `StreamCommand`; defaults: of --every-days, and of --scores."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    options = (
        click.argument("data", type=click.Choice(["oulad", "groceries"])),
        click.option("--folder", type=folder, help="Of oulad."),
        households_option,
        click.option("--first-days", default=140.0, show_default=True, help="Until the first model is made."),
        click.option("--every-days", default=every_days, show_default=True, help="From one retraining to the next."),
        seeds_option(1, "Runs of each network."),
        network_options(layers=1, fewest_layers=1, fewest_neighbours=1, epochs=5),
        out_option,
        click.option(
            "--scores",
            default=scores,
            show_default=True,
            type=click.Path(path_type=Path),
            help="Where what the models say is kept; what is there is not made again.",
        ),
    )

    def add(command: Callable[[StreamCommand], None]) -> Callable[..., None]:
        @wraps(command)
        def of_options(network: Network, **given: Any) -> None:
            command(StreamCommand(network, **given))

        for option in reversed(options):
            of_options = option(of_options)
        return of_options

    return add


def task_of(data: str, folder: Path | None, households: int, until_s: float) -> tuple[LabelTask, Features]:
    """The task of a data set, and the features for its trees; what is fitted to data sees the first `until_s` only."""
    if data == "oulad":
        if folder is None:
            raise click.BadParameter("give the folder with the data", param_hint="--folder")
        return load_oulad(folder), with_running_aggregates
    groceries = load_groceries(households or None, START + until_s)
    return interest_task(groceries), InterestFeatures(groceries)
