"""Link prediction, the paper's tables 1 and 2 and the rules beside them: methods in rows, mean (std) over seeds."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.table import Table

from research.baselines.hand_made import HandMade
from research.baselines.rows import paper_rows
from research.baselines.temporal import TemporalMethod
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from research.mean_std import mean_std
from stream_tgat.evaluation.link_prediction import (
    STANDARD,
    Group,
    LinkMethod,
    LinkProtocol,
    LinkReport,
    LinkTask,
    MethodReport,
    NegativeKind,
    measure,
)
from stream_tgat.evaluation.link_prediction.rules import DestinationRecency, EdgeBank, PairRecency

ReportFigure = Callable[[LinkReport], float]

COLUMNS: dict[str, ReportFigure] = {
    "AP": lambda r: r.pair().average_precision,
    "AP of batches": lambda r: r.pair().batch_average_precision,
    "AUC": lambda r: r.pair().auc,
    "accuracy": lambda r: r.pair().accuracy,
    "AP seen-seen": lambda r: r.pair(group=Group.SEEN).average_precision,
    "AP unseen": lambda r: r.pair(group=Group.UNSEEN).average_precision,
    "AP both unseen": lambda r: r.pair(group=Group.BOTH_UNSEEN).average_precision,
    "AP never seen": lambda r: r.pair(NegativeKind.NEVER_SEEN).average_precision,
    "AP historical": lambda r: r.pair(NegativeKind.HISTORICAL).average_precision,
    "AP inductive": lambda r: r.pair(NegativeKind.INDUCTIVE).average_precision,
    "MRR": lambda r: r.rank().mrr,
    "Hits@10": lambda r: r.rank().hits_at_10,
}


def methods(like: TemporalMethod) -> tuple[LinkMethod, ...]:
    """Every row: rules and hand-made features, then the paper's, with the sizes and the training of `like`.

    Every row that learns from negatives learns from the same kinds of them.
    """
    rules = (EdgeBank(windowed=False), EdgeBank(windowed=True), DestinationRecency(), PairRecency())
    share = like.settings.historical_share
    hand_made = (HandMade("mlp", historical_share=share), HandMade("trees", historical_share=share))
    return (*rules, *hand_made, *paper_rows(like))


def runs(
    task: LinkTask,
    chosen: Iterable[LinkMethod],
    seeds: int,
    variant: str,
    folder: Path,
    protocol: LinkProtocol = STANDARD,
) -> list[Run[MethodReport]]:
    """A run for each method and seed. variant: tells results of other sizes or trainings apart; folder: of results."""

    def run(method: LinkMethod, seed: int) -> Run[MethodReport]:
        key = key_of(task.name, variant, method.name, str(seed))
        if not isinstance(method, TemporalMethod):
            return Run(key, lambda: measure(task, method, seed, protocol))
        scratch = scratch_of(folder, key)
        kept = method.kept_in(scratch)
        return Run(key, lambda: measure(task, kept, seed, protocol), method.device, scratch)

    return [run(method, seed) for method in chosen for seed in range(seeds)]


def table(task: LinkTask, reports: Sequence[MethodReport]) -> Table:
    """Test figures in per cent, one row per method."""
    count = len(task.events(reports[0].test.part)) if reports else 0
    drawn = Table(title=f"{task.name}: {count:,} test interactions, mean (std) over seeds, in per cent")
    drawn.add_column("method")
    for name in COLUMNS:
        drawn.add_column(name, justify="right")
    for method in dict.fromkeys(report.method for report in reports):
        mine = [report.test for report in reports if report.method == method]
        drawn.add_row(method, *(str(mean_std(map(figure, mine))) for figure in COLUMNS.values()))
    return drawn


def make(
    task: LinkTask,
    chosen: Sequence[LinkMethod],
    seeds: int,
    variant: str,
    folder: Path,
    protocol: LinkProtocol = STANDARD,
    on_run: Callable[[str, bool], None] = lambda *_: None,
    origin: ResultOrigin = ResultOrigin(),  # noqa: B008  # a value
) -> Table:
    """The table, after running what is missing in the folder."""
    return table(task, fill(folder, MethodReport, runs(task, chosen, seeds, variant, folder, protocol), on_run, origin))
