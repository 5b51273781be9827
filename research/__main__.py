"""`python -m research`: a command for each table, which goes on where it stopped."""

from dataclasses import replace
from pathlib import Path

import click

from research.baselines.temporal import TemporalMethod
from research.datasets.loading import check
from research.experiments import fidelity, gate, labels, link_prediction, refit, retraining, staleness
from research.experiments.ablations import ablations
from research.experiments.attention import attention
from research.experiments.options import (
    command_line,
    data_argument,
    device_option,
    learning_rate_option,
    link_task_of,
    out_option,
    patience_option,
    seeds_option,
    show,
    takes_data,
    told,
)
from research.experiments.queue import ResultOrigin
from research.experiments.statistics import statistics_command
from research.page.pages import report
from stream_tgat.datasets.table import Columns
from stream_tgat.errors import StreamTgatError
from stream_tgat.evaluation.link_prediction import STANDARD
from stream_tgat.training.links import LinkSettings


@click.group()
def main() -> None:
    """Make tables and figures from data sets."""


@main.command("links")
@data_argument
@click.option("--method", "names", multiple=True, help="A row, by its name; may be repeated. Default: all rows.")
@seeds_option(3, "Runs of each method.")
@click.option("--width", default=64, show_default=True, type=click.IntRange(2), help="Of embeddings and time encoding.")
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1, 3), help="Of the graph networks.")
@click.option("--epochs", default=50, show_default=True, type=click.IntRange(1), help="At most, of the graph networks.")
@patience_option
@learning_rate_option
@click.option("--negatives", default=1, show_default=True, type=click.IntRange(1), help="Per positive, in training.")
@click.option(
    "--historical-share",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Of those negatives, whom the source met before.",
)
@click.option(
    "--averaging",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of its past that a moving average of the weights keeps at a step; 0: no average.",
)
@click.option("--activity", is_flag=True, help="Give every method the activity features.")
@click.option("--ranked", default=2000, show_default=True, type=int, help="Positives ranked for MRR and Hits@10.")
@device_option
@out_option
@takes_data
def links(
    data: Path,
    names: tuple[str, ...],
    seeds: int,
    width: int,
    layers: int,
    epochs: int,
    patience: int,
    learning_rate: float,
    negatives: int,
    historical_share: float,
    averaging: float,
    activity: bool,
    ranked: int,
    device: str,
    out: Path,
    columns: Columns,
) -> None:
    """Every method on the interactions of DATA: same split, same negatives, mean (std) over seeds.

    DATA is a JODIE file (wikipedia.csv), a table (CSV, JSON lines, Parquet) with a column each for source, destination
    and time, or a folder with events.csv.gz (user,item,timestamp,label), meta.json ({"bipartite": true}) and perhaps
    edge_features.npz (x) and node_features.npz (user, item). `check DATA` tells what is wrong with it.
    """
    settings = LinkSettings(
        epochs=epochs,
        patience=patience,
        learning_rate=learning_rate,
        negatives=negatives,
        historical_share=historical_share,
        averaging=averaging,
    )
    like = TemporalMethod(
        "TGAT", width=width, time_width=width, layers=layers, activity=activity, settings=settings, device=device
    )
    every = link_prediction.methods(like)
    unknown = sorted(set(names) - {method.name for method in every})
    if unknown:
        known = "; ".join(method.name for method in every)
        raise click.BadParameter(f"no row is called {', '.join(unknown)}; there are {known}", param_hint="--method")
    chosen = [method for method in every if not names or method.name in names]
    training = f"e{epochs}p{patience}lr{learning_rate:g}q{negatives}h{historical_share:g}v{averaging:g}"
    variant = f"d{width}l{layers}{training}r{ranked}" + ("a" if activity else "")
    with told() as on_run:
        task = link_task_of(data, columns)
        drawn = link_prediction.make(
            task,
            chosen,
            seeds,
            variant,
            out / "links",
            replace(STANDARD, ranked=ranked),
            on_run,
            ResultOrigin(command_line()),
        )
    show(drawn, width=230)


@main.command("check")
@data_argument
@takes_data
def check_command(data: Path, columns: Columns) -> None:
    """Tell what is remarkable in DATA, and what is wrong with it; ends with exit code 1 if something is.

    DATA: as `links --help` says.
    """
    try:
        report = check(data, columns)
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
    show(report, width=200)
    if not report.usable:
        raise SystemExit(1)


main.add_command(ablations)
main.add_command(attention)
main.add_command(fidelity.command)
main.add_command(gate.command)
main.add_command(labels.command)
main.add_command(report)
main.add_command(refit.command)
main.add_command(retraining.command)
main.add_command(staleness.command)
main.add_command(statistics_command)

if __name__ == "__main__":
    main()
