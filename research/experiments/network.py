"""The TGAT that a command of this folder trains: one set of options, and what they make."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import click

from research.baselines.temporal import TemporalMethod
from research.experiments.options import device_option
from stream_tgat.training.links import LinkSettings


@dataclass(frozen=True)
class Network:
    """As on the command line; epoch_events: 0 for all."""

    width: int
    attention_heads: int
    layers: int
    neighbours: int
    epochs: int
    epoch_events: int
    negatives: int
    learning_rate: float
    device: str

    def encoder(self) -> TemporalMethod:
        """To be trained, with the activity features."""
        return TemporalMethod(
            "TGAT",
            width=self.width,
            time_width=self.width,
            layers=self.layers,
            attention_heads=self.attention_heads,
            neighbours=self.neighbours,
            activity=True,
            device=self.device,
            settings=LinkSettings(
                epochs=self.epochs,
                negatives=self.negatives,
                learning_rate=self.learning_rate,
                epoch_events=self.epoch_events or None,
            ),
        )

    @property
    def sizes(self) -> str:
        """All that changes results, for their keys, but the learning rate."""
        return (
            f"d{self.width}h{self.attention_heads}l{self.layers}k{self.neighbours}e{self.epochs}n{self.epoch_events}"
            f"q{self.negatives}"
        )

    @property
    def rate(self) -> str:
        """The learning rate, for keys."""
        return f"lr{self.learning_rate:g}"


def network_options(
    layers: int, fewest_layers: int, fewest_neighbours: int, epochs: int, epoch_events: int = 20_000
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options of a command, which gets them as `network`, its first parameter.

    layers, epochs, epoch_events: defaults
    """
    options = (
        click.option("--width", default=64, show_default=True, type=click.IntRange(2),
                     help="Of embeddings and time encoding."),
        click.option("--attention-heads", default=2, show_default=True, type=click.IntRange(1),
                     help="Of TGAT and GAT."),
        click.option("--layers", default=layers, show_default=True, type=click.IntRange(fewest_layers, 3),
                     help="Of the graph networks."),
        click.option("--neighbours", default=20, show_default=True, type=click.IntRange(fewest_neighbours),
                     help="Of a node, in a layer."),
        click.option("--epochs", default=epochs, show_default=True, type=click.IntRange(1), help="At most."),
        click.option("--epoch-events", default=epoch_events, show_default=True, type=click.IntRange(0),
                     help="Interactions of an epoch; 0: all."),
        click.option("--negatives", default=1, show_default=True, type=click.IntRange(1), help="Per link in training."),
        click.option("--learning-rate", default=1e-3, show_default=True, type=float, help="Of Adam."),
        device_option,
    )  # fmt: skip
    names = [each.name for each in fields(Network)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_network(**given: Any) -> None:
            command(Network(**{name: given.pop(name) for name in names}), **given)

        for option in reversed(options):
            with_network = option(with_network)
        return with_network

    return decorate
