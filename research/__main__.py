"""`python -m research`: a command for each table, which goes on where it stopped."""

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from research.baselines.temporal import TemporalMethod
from research.datasets.loading import check
from research.experiments import fidelity, gate, labels, link_prediction, refit, retraining, staleness
from research.experiments.ablations import ablations
from research.experiments.attention import attention
from research.experiments.options import command_line, device_option, link_task_of, takes_data
from research.experiments.queue import ResultOrigin
from research.experiments.statistics import statistics_command
from research.page.pages import report
from stream_tgat.datasets.table import Columns
from stream_tgat.errors import StreamTgatError
from stream_tgat.evaluation.link_prediction import STANDARD
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.training.links import LinkSettings


@click.group()
def main() -> None:
    """Make tables and figures from data sets."""


@main.command("links")
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.option("--method", "names", multiple=True, help="A row, by its name; may be repeated. Default: all rows.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs of each method.")
@click.option("--width", default=64, show_default=True, type=click.IntRange(2), help="Of embeddings and time encoding.")
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1, 3), help="Of the graph networks.")
@click.option("--epochs", default=50, show_default=True, type=click.IntRange(1), help="At most, of the graph networks.")
@click.option("--patience", default=3, show_default=True, type=click.IntRange(1), help="Epochs without a better one.")
@click.option("--learning-rate", default=1e-3, show_default=True, type=float, help="Of Adam.")
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
@click.option("--out", default=Path("runs/experiments"), show_default=True, type=click.Path(path_type=Path),
              help="Where results are kept; what is there is not run again.")  # fmt: skip
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
    use_one_thread()
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
    console = Console(stderr=True)
    try:
        task = link_task_of(data, columns)
        drawn = link_prediction.make(
            task,
            chosen,
            seeds,
            variant,
            out / "links",
            replace(STANDARD, ranked=ranked),
            lambda key, there: console.print(f"{'have' if there else 'run '} {key}", highlight=False),
            ResultOrigin(command_line()),
        )
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
    Console(width=None if console.is_terminal else 230).print(drawn)


@main.command("check")
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@takes_data
def check_command(data: Path, columns: Columns) -> None:
    """Tell what is remarkable in DATA, and what is wrong with it; ends with exit code 1 if something is.

    DATA: as `links --help` says.
    """
    try:
        report = check(data, columns)
    except StreamTgatError as problem:
        raise click.ClickException(str(problem)) from problem
    console = Console()
    Console(width=None if console.is_terminal else 200).print(report)
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
