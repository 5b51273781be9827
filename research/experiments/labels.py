"""Predictions about the user: drop-out of students and interests of households, every method on the same questions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.table import Table

from research.baselines.autoencoder import GraphAutoencoder
from research.baselines.skipgram import CTDNE, SkipGram
from research.baselines.static import PairScoring
from research.baselines.temporal import TemporalMethod, temporal_methods
from research.baselines.varied import time_encoding_methods
from research.datasets.bans import load_bans
from research.datasets.groceries import DAY_S, load_groceries
from research.datasets.interests import BEGIN_OF_TEST, InterestFeatures, interest_task
from research.datasets.oulad import load_oulad
from research.experiments.network import Network, network_options
from research.experiments.options import (
    command_line,
    households_option,
    out_option,
    patience_option,
    seeds_option,
    show,
    told,
)
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.labels import LabelMethod, LabelReport, LabelTask, QuestionPart, compare, measure
from research.labels.methods import Activity, EncoderMethod, EventOnly, Heads, StaticMethod
from research.labels.protocol import STANDARD, LabelProtocol
from research.labels.sums import DecayedSums, with_decayed_sums
from research.labels.trees import BoostedTrees, Features, event_and_user, with_running_aggregates
from research.mean_std import MeanStd, mean_std
from stream_tgat.evaluation.bootstrap import Interval
from stream_tgat.training.fine_tuning import FineTuning

BASELINE = "Boosted trees on the same past"
WINDOW_S = 28 * DAY_S
FINE_TUNING = FineTuning(epochs=30)


@dataclass(frozen=True)
class LabelComparison:
    """Mean AUC of a row less that of boosted trees, question by question, users drawn anew; of `runs` runs each."""

    task: str
    method: str
    runs: int
    less: Interval


def methods(
    like: TemporalMethod,
    trees: tuple[Features, ...],
    heads: Heads | None = None,
    tuning: FineTuning = FINE_TUNING,
) -> tuple[LabelMethod, ...]:
    """Every row: the trivial one, the interaction alone, trees, the paper's transductive rows, those over the past
    without and with fine-tuning, TGAT with other time encodings, and decayed sums of the past alone and beside TGAT.

    trees: sets of features, of which they keep the best   like: sizes and training of the graph networks
    tuning: of the rows that have it
    """
    heads = heads or Heads()
    autoencoder = GraphAutoencoder(width=like.width, scoring=PairScoring(("inner",)))
    static = (
        autoencoder,
        replace(autoencoder, name="VGAE", variational=True),
        CTDNE(skip_gram=SkipGram(width=like.width), scoring=PairScoring(("inner",))),
    )
    return (
        Activity(WINDOW_S),
        EventOnly(heads),
        BoostedTrees(trees, BASELINE),
        *(StaticMethod(each, heads) for each in static),
        *(EncoderMethod(each, heads) for each in temporal_methods(like)),
        *(EncoderMethod(each, heads, tuning) for each in temporal_methods(like)),
        *(EncoderMethod(each, heads) for each in time_encoding_methods(like)),
        DecayedSums(heads=heads),
        with_decayed_sums(temporal_methods(like)[0], heads),
    )


def runs(
    task: LabelTask,
    chosen: Iterable[LabelMethod],
    seeds: int,
    variant: Callable[[LabelMethod], str],
    folder: Path,
    protocol: LabelProtocol = STANDARD,
) -> list[Run[LabelReport]]:
    """A run for each method and seed. variant: of a method, tells results of other sizes or trainings apart; folder: of
    results.
    """

    def run(method: LabelMethod, seed: int) -> Run[LabelReport]:
        key = key_of(task.name, variant(method), method.name, str(seed))
        if not isinstance(method, EncoderMethod | DecayedSums) or method.encoder is None:
            return Run(key, lambda: measure(task, method, seed, protocol))
        scratch, encoder = scratch_of(folder, key), method.encoder
        kept = replace(method, encoder=encoder.kept_in(scratch))
        return Run(key, lambda: measure(task, kept, seed, protocol), encoder.device, scratch)

    return [run(method, seed) for method in chosen for seed in range(seeds)]


def table(task: LabelTask, reports: Sequence[LabelReport], protocol: LabelProtocol = STANDARD) -> Table:
    """Figures in per cent: AUC and average precision of each head, and the mean AUC less that of boosted trees."""
    counts = ", ".join(f"{target.name} {len(target.test):,}" for target in task.targets)
    drawn = Table(title=f"{task.name}: test questions {counts}; mean (std) over seeds, ± error over users, in per cent")
    drawn.add_column("method")
    for name in task.head_names:
        drawn.add_column(f"AUC {name}", justify="right")
        drawn.add_column(f"AP {name}", justify="right")
    for name in ("mean AUC", "on validation", "less trees [95 % over users]"):
        drawn.add_column(name, justify="right")
    trees = [report for report in reports if report.method == BASELINE]
    for method in dict.fromkeys(report.method for report in reports):
        mine = [report for report in reports if report.method == method]
        cells = []
        for at in range(len(task.targets)):
            error = mine[0].heads[at].test.auc.std_error
            area = mean_std(report.heads[at].test.auc.estimate for report in mine)
            cells += [f"{area} ± {100 * error:.2f}", str(_over(mine, at))]
        cells += [
            str(mean_std(report.mean_auc(part) for report in mine))
            for part in (QuestionPart.TEST, QuestionPart.VALIDATION)
        ]
        less = compare(task, mine, trees, protocol) if trees and method != BASELINE else None
        cells.append(
            f"{100 * less.estimate:+.2f} [{100 * less.low:+.2f}, {100 * less.high:+.2f}]" if less is not None else ""
        )
        drawn.add_row(method, *cells)
    return drawn


def _over(reports: Sequence[LabelReport], at: int) -> MeanStd:
    return mean_std(report.heads[at].test.average_precision for report in reports)


def make(
    task: LabelTask,
    chosen: Sequence[LabelMethod],
    seeds: int,
    variant: Callable[[LabelMethod], str],
    folder: Path,
    protocol: LabelProtocol = STANDARD,
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),  # noqa: B008  # a value
) -> Table:
    """The table, after running what is missing in the folder; what it compares is kept in a folder beside it."""
    reports = fill(folder, LabelReport, runs(task, chosen, seeds, variant, folder, protocol), on_run, origin)
    kept = folder.parent / "label-comparisons"
    fill(kept, LabelComparison, _comparisons(task, chosen, reports, variant, protocol), origin=origin)
    return table(task, reports, protocol)


def _comparisons(
    task: LabelTask,
    chosen: Sequence[LabelMethod],
    reports: Sequence[LabelReport],
    variant: Callable[[LabelMethod], str],
    protocol: LabelProtocol,
) -> list[Run[LabelComparison]]:
    """A run for each row but that of boosted trees, if there is one."""
    trees = [report for report in reports if report.method == BASELINE]

    def run(method: LabelMethod) -> Run[LabelComparison]:
        mine = [report for report in reports if report.method == method.name]
        key = key_of(task.name, variant(method), method.name, str(len(mine)))
        return Run(
            key, lambda: LabelComparison(task.name, method.name, len(mine), compare(task, mine, trees, protocol))
        )

    return [run(method) for method in chosen if trees and method.name != BASELINE]


@click.command("labels")
@click.argument("data", type=click.Choice(["oulad", "groceries", "jodie"]))
@click.option("--folder", type=click.Path(exists=True, path_type=Path), help="Of oulad; of jodie, the file.")
@click.option("--items", default="assessment", show_default=True, type=click.Choice(["assessment", "slot"]),
              help="What a student of oulad meets: an assessment, or its slot over presentations.")  # fmt: skip
@households_option
@click.option("--method", "names", multiple=True, help="A row, by its name; may be repeated. Default: all rows.")
@seeds_option(3, "Runs of each method.")
@network_options(layers=1, fewest_layers=1, fewest_neighbours=1, epochs=10, epoch_events=0)
@patience_option
@click.option("--members", default=1, show_default=True, type=click.IntRange(1),
              help="Networks whose mean a prediction head is.")  # fmt: skip
@click.option("--fine-tuning", default=FINE_TUNING.epochs, show_default=True, type=click.IntRange(1),
              help="Epochs, at most, in the rows whose encoder answers teach too.")  # fmt: skip
@click.option("--activity/--no-activity", default=True, show_default=True, help="Activity features in layer 0.")
@out_option
def command(
    network: Network,
    data: str,
    folder: Path | None,
    items: str,
    households: int,
    names: tuple[str, ...],
    seeds: int,
    patience: int,
    members: int,
    fine_tuning: int,
    activity: bool,
    out: Path,
) -> None:
    """Predictions about the user on DATA: same questions for every method, confidence over users.

    oulad: drop-out of students, by cohort; a submission's score counts as known at once, though it arrives at marking.
    groceries: interest groups that households take up, with gaps between the parts as long as an answer takes.
    jodie: changes of a user's state, such as bans, from a JODIE file (wikipedia.csv, reddit.csv, mooc.csv).
    """
    like = network.encoder()
    like = replace(like, activity=activity, settings=replace(like.settings, patience=patience))
    with told() as on_run:
        task, trees = _task(data, folder, items, households)
        every = methods(like, trees, Heads(members=members), FineTuning(epochs=fine_tuning))
        unknown = sorted(set(names) - {method.name for method in every})
        if unknown:
            known = "; ".join(method.name for method in every)
            raise click.BadParameter(f"no row is called {', '.join(unknown)}; there are {known}", param_hint="--method")
        sample = {"oulad": items, "groceries": f"of{households}", "jodie": ""}[data]
        sizes = f"{network.sizes}p{patience}{network.rate}{sample}" + ("a" if activity else "")

        several = f"m{members}" if members > 1 else ""

        def variant(method: LabelMethod) -> str:
            if isinstance(method, EncoderMethod) and method.tuning.epochs:
                return f"{sizes}t{method.tuning.epochs}{several}"
            if isinstance(method, EncoderMethod) or (isinstance(method, DecayedSums) and method.encoder is not None):
                return f"{sizes}{several}"
            if isinstance(method, Activity | BoostedTrees):
                return sample
            return f"d{network.width}{sample}{several}" if isinstance(method, StaticMethod) else f"{sample}{several}"

        drawn = make(
            task,
            [method for method in every if not names or method.name in names],
            seeds,
            variant,
            out / "labels",
            on_run=on_run,
            origin=ResultOrigin(command_line()),
        )
    show(drawn, width=220)


def _task(data: str, folder: Path | None, items: str, households: int) -> tuple[LabelTask, tuple[Features, ...]]:
    """The task of a data set, and the sets of features for the trees."""
    if data == "groceries":
        groceries = load_groceries(households or None, BEGIN_OF_TEST)
        return interest_task(groceries), (InterestFeatures(groceries),)
    if folder is None:
        raise click.BadParameter("give the folder with the data, or the file", param_hint="--folder")
    task = load_bans(folder) if data == "jodie" else load_oulad(folder, "slot" if items == "slot" else "assessment")
    return task, (event_and_user, with_running_aggregates)
