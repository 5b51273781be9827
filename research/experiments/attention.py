"""The paper's analyses of what a trained TGAT attends to, on the test part.

A weight alone says little, as weights sum to 1: it is multiplied by the number of neighbours, so that 1 is what
constant weights would give. Against the time span since the neighbour's interaction, smoothed by loess over log span;
and against how often the node had met that neighbour before, at several target times.
"""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray

from research.baselines.optional import lowess
from research.experiments.ablations import Choice
from research.experiments.options import (
    command_line,
    data_argument,
    link_task_of,
    out_option,
    patience_option,
    takes_data,
    told,
)
from research.experiments.queue import ResultOrigin, Run, fill, key_of, scratch_of
from stream_tgat.datasets.table import Columns
from stream_tgat.evaluation.link_prediction import LinkProtocol, LinkTask, NegativeKind, Part, evaluate
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.graph.adjacency import Neighbourhood
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.embedding import attended

FEWEST = 5
"""Neighbours that a neighbourhood must have to be looked at."""

ASKED = 4000
"""Test interactions whose sources are looked at, evenly spread, for the figure of time spans."""

DOTS = 800
"""Neighbours of them that are kept to be drawn as dots."""

FRACTION = 0.3
"""Of all neighbours that a local regression of loess sees."""

TARGET_TIMES = 4
"""Evenly spread over the test interactions."""

RECURRENCES = (1, 2, 3, 5, 9, 17, 33)
"""Lower bounds of classes of how often two nodes have met."""


@dataclass(frozen=True)
class Recurrence:
    """Relative weights at one target time, by how often the neighbour had been met.

    day: since the first interaction   met: lower bound of each class   targets: nodes with a neighbour in the class
    relative, error: mean over these nodes, each counted once, and its standard error, NaN for fewer than two
    """

    day: float
    met: tuple[int, ...]
    targets: tuple[int, ...]
    relative: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True)
class AttentionReport:
    """What one trained model attends to. average_precision: on test, to tell how good the model is

    spans: seconds, and relative weights, of some neighbours   curve_spans, curve: loess over all that were looked at
    recurrences: one for each target time
    """

    task: str
    choice: Choice
    seed: int
    average_precision: float
    spans: tuple[float, ...]
    relative: tuple[float, ...]
    curve_spans: tuple[float, ...]
    curve: tuple[float, ...]
    recurrences: tuple[Recurrence, ...]


def measure(task: LinkTask, choice: Choice, seed: int, scratch: Path | None = None) -> AttentionReport:
    """Train a choice and look at its last layer. scratch: where a killed training goes on"""
    scorer: ModelScorer = choice.method().kept_in(scratch).fit(task, seed)
    found = evaluate(task, scorer, Part.TEST, LinkProtocol(kinds=(NegativeKind.RANDOM,), ranked=0))
    spans, relative = of_test(task, scorer)
    curve_spans, curve = loess(spans, relative)
    dots = np.random.default_rng(seed).permutation(len(spans))[:DOTS]
    return AttentionReport(
        task=task.name,
        choice=choice,
        seed=seed,
        average_precision=found.pair().average_precision,
        spans=_rounded(spans[dots]),
        relative=_rounded(relative[dots]),
        curve_spans=_rounded(curve_spans),
        curve=_rounded(curve),
        recurrences=tuple(of_target_time(task.interactions, scorer, time) for time in target_times(task)),
    )


def of_test(task: LinkTask, scorer: ModelScorer) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Time spans, seconds, and relative weights of the neighbours of test interactions' sources: two arrays [n]."""
    events = task.events(Part.TEST)
    events = events[np.arange(min(ASKED, len(events))) * len(events) // min(ASKED, len(events))]
    times = task.interactions.time[events]
    found, relative = relative_weights(scorer, task.interactions.source[events], times)
    spans = times[:, None] - found.time
    return spans[found.mask], relative[found.mask]


def of_target_time(interactions: Interactions, scorer: ModelScorer, time: float) -> Recurrence:
    """Relative weights of all sources with enough of a past, at one time."""
    past = interactions.select(interactions.time < time)
    nodes = np.unique(past.source)
    found, relative = relative_weights(scorer, nodes, np.full(len(nodes), time))
    met = times_met(past, nodes, found)
    kept = [_by_target(relative, found.mask & (met >= low) & (met < high)) for low, high in _classes()]
    shown = [(low, values) for (low, _), values in zip(_classes(), kept, strict=True) if len(values)]
    return Recurrence(
        day=round(float(time - interactions.time[0]) / 86_400.0, 2),
        met=tuple(low for low, _ in shown),
        targets=tuple(len(values) for _, values in shown),
        relative=_rounded(np.array([values.mean() for _, values in shown])),
        error=_rounded(np.array([_standard_error(values) for _, values in shown])),
    )


def target_times(task: LinkTask) -> list[float]:
    """The first, …, the last of some test interactions evenly spread, in time."""
    test = task.events(Part.TEST)
    places = np.linspace(0, len(test) - 1, TARGET_TIMES).astype(np.int64)
    return [float(time) for time in task.interactions.time[test[places]]]


def relative_weights(
    scorer: ModelScorer, nodes: NDArray[np.int64], times: NDArray[np.float64]
) -> tuple[Neighbourhood, NDArray[np.float64]]:
    """α × number of neighbours, mean of the heads, in the last layer of a trained model.

    nodes: [B]   times: [B]
    Returns the neighbourhoods [B, K], without those with fewer than five neighbours, and the weights [B, K].
    """
    graph = scorer.graph
    with torch.inference_mode():
        found, weights = attended(scorer.model, graph.history, graph.node_features, nodes, times)
    count = found.mask.sum(1, keepdims=True)
    mask = found.mask & (count >= FEWEST)
    relative = weights.mean(1).double().cpu().numpy() * count
    return Neighbourhood(found.node, found.event, found.time, found.side, mask), relative


def times_met(past: Interactions, nodes: NDArray[np.int64], found: Neighbourhood) -> NDArray[np.int64]:
    """How many interactions of the past each node [B] had with each of its neighbours [B, K], either side: [B, K]."""
    width = max(past.node_count, int(found.node.max(initial=0)) + 1, int(nodes.max(initial=0)) + 1)

    def key(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.minimum(one, other) * width + np.maximum(one, other))

    known, counts = np.unique(key(past.source, past.destination), return_counts=True)
    asked = key(np.broadcast_to(nodes[:, None], found.node.shape), found.node)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, counts[places], 0)


def loess(
    spans: NDArray[np.float64], relative: NDArray[np.float64], points: int = 80
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Local linear regression of relative weights [n] over log10 of spans [n]: a grid of spans and its curve.

    Not the robust kind: weights are skewed, and it is their mean that is 1 where attention is constant. The grid goes
    from the first to the last per cent of the spans.
    """
    logarithm = np.log10(np.maximum(spans, 1.0))
    low, high = np.quantile(logarithm, [0.01, 0.99])
    grid = np.linspace(float(low), float(high), points)
    curve = lowess()(relative, logarithm, frac=FRACTION, it=0, xvals=grid)
    return 10.0**grid, np.asarray(curve, np.float64)


def _classes() -> list[tuple[int, float]]:
    """[low, high) of each class of recurrence."""
    return list(zip(RECURRENCES, (*RECURRENCES[1:], np.inf), strict=True))


def _by_target(relative: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The mean of each row's chosen values, for rows that have some."""
    count = chosen.sum(1)
    some = count > 0
    return np.asarray((relative * chosen).sum(1)[some] / count[some])


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _rounded(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Four digits are as many as a figure shows."""
    return tuple(float(f"{value:.4g}") for value in values)


@click.command("attention")
@data_argument
@click.option("--width", default=64, show_default=True, type=click.IntRange(2), help="Of embeddings and time encoding.")
@click.option("--layers", default=1, show_default=True, type=click.IntRange(1, 3), help="The last one is looked at.")
@click.option("--epochs", default=50, show_default=True, type=click.IntRange(1), help="At most.")
@patience_option
@click.option("--seed", default=0, show_default=True, type=int)
@out_option
@takes_data
def attention(
    data: Path, width: int, layers: int, epochs: int, patience: int, seed: int, out: Path, columns: Columns
) -> None:
    """Train TGAT on the interactions of DATA, and look at what it attends to.

    DATA: as `links --help` says.
    """
    choice = Choice(width=width, time_width=width, layers=layers, epochs=epochs, patience=patience)
    with told() as on_run:
        task = link_task_of(data, columns)
        key = f"{key_of(task.name)}-{choice.key()}-{seed}"
        scratch = scratch_of(out / "attention", key)
        run = Run(key, lambda: measure(task, choice, seed, scratch), scratch=scratch)
        fill(
            out / "attention",
            AttentionReport,
            [run],
            on_run,
            ResultOrigin(command_line()),
        )
