"""What old peer embeddings cost: one change of weights in a stream, after which rows keep what the old weights made of
them.

New weights over old peer embeddings are compared with new weights over peer embeddings made anew by them, as
re-encoding leaves it, and with the old model as if nothing had changed. A node is free of old peer embeddings when it
has had K interactions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.baselines.temporal import TemporalMethod
from research.labels.methods import Heads, TrainedHeads
from research.prequential.step_report import DAY_S
from research.prequential.steps import PrequentialStream
from stream_tgat.engine import Engine, both_halves, settle
from stream_tgat.errors import DataError
from stream_tgat.evaluation.bootstrap import HeadScores, Interval, paired_mean_bootstrap
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions
from stream_tgat.nn.model import Model
from stream_tgat.storage.stores import MemoryStore
from stream_tgat.training.heads import embed_events
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.scoring import TemporalGraph

BATCH = 500
"""Interactions that the engine is given at a time."""

OLD, NEW = 1, 2
"""Versions of the weights."""


@dataclass(frozen=True)
class StaleBin:
    """Questions about users with a past before the switch, by how many interactions they have had since.

    low, high: how many, both included; high is None for any more   count, positive: of all heads
    share: of their neighbours that carry old peer embeddings, mean
    distance, old_distance: of the embedding with old peer embeddings, and of the old model's, from the one that is
    right; mean norm of the difference, in units of the right ones' mean distance from their centre
    right, stale, old: AUC, mean over heads: peer embeddings made anew, old peer embeddings, the old model   cost: stale
    less right
    """

    low: int
    high: int | None
    count: int
    positive: int
    share: float
    distance: float
    old_distance: float
    right: float
    stale: float
    old: float
    cost: Interval


@dataclass(frozen=True)
class StalenessReport:
    """A switch. day: since the first interaction   old_day: at which the old model was made   days: looked at after it

    seeds: of the old model and of the new one   whole: all questions; bins: apart
    """

    task: str
    layers: int
    neighbours: int
    day: float
    old_day: float
    days: float
    seeds: tuple[int, int]
    whole: StaleBin
    bins: tuple[StaleBin, ...]


@dataclass(frozen=True, eq=False)
class MadeModel:
    """A model that was made at a step: an encoder and the heads over it."""

    encoder: Model
    heads: TrainedHeads
    inputs: list[Tensor]


def measure(
    stream: PrequentialStream,
    step: int,
    encoder: TemporalMethod,
    heads: Heads,
    seeds: tuple[int, int],
    days: float,
    bins: Sequence[int],
    rounds: int,
    scratch: Path | None = None,
) -> StalenessReport:
    """Switch at a step from the model of the step before.

    seeds: of the old and the new model   days: how long to look   bins: where each begins, from 0 on
    scratch: where killed trainings go on
    """
    if encoder.layers < 2:
        raise DataError("peer embeddings of layer 0 are made without weights: with one layer nothing can be stale")
    graph = TemporalGraph.of(stream.interactions, stream.node_features)
    old, new = (
        made(stream, at, encoder.kept_in(scratch and scratch / name), heads, seed, graph)
        for name, at, seed in (("old", step - 1, seeds[0]), ("new", step, seeds[1]))
    )
    cut, until = stream.cuts[step], stream.cuts[step] + days * DAY_S
    streamed = after_switch(old.encoder, new.encoder, stream.interactions, stream.node_features, cut, until)
    asked = [_asked(stream, graph.history, at, cut, until, encoder.neighbours) for at in range(len(stream.heads))]
    said = [_said(each, old, new, streamed) for each in asked]
    ends = [*(low - 1 for low in bins[1:]), None]
    spread = _spread(torch.cat([each.right_embedding for each in said]))
    begin = stream.interactions.time[0]
    return StalenessReport(
        stream.name,
        encoder.layers,
        encoder.neighbours,
        (cut - begin) / DAY_S,
        (stream.cuts[step - 1] - begin) / DAY_S,
        days,
        seeds,
        _bin(said, 0, None, spread, rounds),
        tuple(_bin(said, low, high, spread, rounds) for low, high in zip(bins, ends, strict=True)),
    )


def made(
    stream: PrequentialStream, step: int, encoder: TemporalMethod, heads: Heads, seed: int, graph: TemporalGraph
) -> MadeModel:
    """The model of a step, and what its heads read of every question."""
    task = stream.task(step)
    model = encoder.fit(task.links(), seed).model
    inputs = [embed_events(model, graph, target.labels.event) for target in task.targets]
    return MadeModel(model, heads.fit(task, inputs, seed), inputs)


def after_switch(
    old: Model,
    new: Model,
    interactions: Interactions,
    node_features: NDArray[np.float32] | None,
    switch: float,
    until: float,
) -> NDArray[np.float32]:
    """Embeddings [n, D] of the sources of interactions, by an engine that changes its weights at a time; zero for
    those before it, and from `until` on. Rows keep the peer embeddings that the old weights made.
    """
    time = interactions.time
    first, end = (int(place) for place in np.searchsorted(time, [switch, until]))
    nodes = interactions.node_count if node_features is None else len(node_features)
    names = np.char.mod("%08d", np.arange(max(end, nodes))).astype("S8")
    halves = both_halves(
        names[interactions.source[:end]], names[interactions.destination[:end]], names[:end], time[:end],
        interactions.edge[:end],
    )  # fmt: skip
    engine = Engine(old, OLD, id_bytes=8)
    engine.open(0, MemoryStore())
    if node_features is not None:
        engine.set_features(0, names[:nodes], node_features)
    result = np.zeros((len(time), new.config.hidden), np.float32)
    for begin, stop in ((0, first), (first, end)):
        if begin == first:
            engine.swap(new, NEW)
        for at in range(begin, stop, BATCH):
            last = min(at + BATCH, stop)
            engine.append(0, halves.take(slice(2 * at, 2 * last)))
            for left in settle(engine, 0, 2 * BATCH, time[last] if last < end else np.inf):
                asked = left.take((left.side == 0) & (left.version == NEW))
                result[asked.interaction.astype(np.int64)] = asked.embedding
            engine.save(0)
    return result


@dataclass(frozen=True, eq=False)
class _Asked:
    """Questions of head `at` after the switch: places of them [m], and of each its event, user and truth.

    since: interactions of the user since the switch   share: of neighbours with old peer embeddings
    """

    at: int
    places: NDArray[np.int64]
    event: NDArray[np.int64]
    user: NDArray[np.int64]
    truth: NDArray[np.float64]
    since: NDArray[np.int64]
    share: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Said:
    """What was said to them: probabilities [m] and embeddings [m, D]."""

    asked: _Asked
    right: NDArray[np.float64]
    stale: NDArray[np.float64]
    old: NDArray[np.float64]
    right_embedding: Tensor
    stale_embedding: Tensor
    old_embedding: Tensor


def _asked(
    stream: PrequentialStream, history: TemporalAdjacency, at: int, cut: float, until: float, neighbours: int
) -> _Asked:
    """Those of a head about users with a past before the switch."""
    head = stream.heads[at]
    labels, time, users = stream.labels[head], stream.asked(head), stream.users(head)
    first, before = history.before(users, np.full(len(users), cut))
    places = np.flatnonzero((time >= cut) & (time < until) & (before > first))
    now = history.before(users[places], time[places])[1]
    since = now - before[places]
    reached = np.minimum(now - first[places], neighbours)
    return _Asked(
        at,
        places,
        labels.event[places],
        users[places],
        labels.value[places],
        since,
        np.maximum(reached - since, 0) / reached,
    )


def _said(asked: _Asked, old: MadeModel, new: MadeModel, streamed: NDArray[np.float32]) -> _Said:
    width = streamed.shape[1]
    right, before = new.inputs[asked.at][asked.places], old.inputs[asked.at][asked.places]
    stale = torch.cat([torch.from_numpy(streamed[asked.event]), right[:, width:]], -1)
    return _Said(
        asked,
        new.heads.probability(asked.at, right),
        new.heads.probability(asked.at, stale),
        old.heads.probability(asked.at, before),
        right[:, :width],
        stale[:, :width],
        before[:, :width],
    )


def _bin(said: Sequence[_Said], low: int, high: int | None, spread: float, rounds: int) -> StaleBin:
    chosen = [
        (each, np.flatnonzero((each.asked.since >= low) & (each.asked.since <= (np.inf if high is None else high))))
        for each in said
    ]
    truths = [each.asked.truth[rows] for each, rows in chosen]
    judged = [(each, rows) for each, rows in chosen if len(np.unique(each.asked.truth[rows])) == 2]

    def scored(score: Callable[[_Said], NDArray[np.float64]]) -> list[HeadScores]:
        return [HeadScores(each.asked.truth[rows], score(each)[rows], each.asked.user[rows]) for each, rows in judged]

    right, stale, old = (scored(score) for score in (lambda e: e.right, lambda e: e.stale, lambda e: e.old))
    return StaleBin(
        low,
        high,
        sum(map(len, truths)),
        sum(int(truth.sum()) for truth in truths),
        _mean(np.concatenate([each.asked.share[rows] for each, rows in chosen])),
        _distance(chosen, lambda each: each.stale_embedding) / spread,
        _distance(chosen, lambda each: each.old_embedding) / spread,
        _mean_auc(right),
        _mean_auc(stale),
        _mean_auc(old),
        paired_mean_bootstrap(stale, right, rounds=rounds),
    )


def _distance(chosen: Sequence[tuple[_Said, NDArray[np.int64]]], of: Callable[[_Said], Tensor]) -> float:
    """Mean norm of the difference from what is right; NaN for no question."""
    parts = [(of(each) - each.right_embedding)[torch.from_numpy(rows)].norm(dim=-1) for each, rows in chosen]
    return _mean(torch.cat(parts).double().numpy())


def _spread(embeddings: Tensor) -> float:
    """Mean distance from the centre."""
    return float((embeddings - embeddings.mean(0)).norm(dim=-1).mean()) if len(embeddings) else float("nan")


def _mean_auc(every: Sequence[HeadScores]) -> float:
    return _mean(np.array([binary_metrics(each.truth, each.score).auc for each in every]))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
