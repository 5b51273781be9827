"""The prediction heads of a model: what they are asked, and the inputs that a frozen encoder gives them.

Input is the user's embedding at the time of an interaction, that interaction's features, and decayed sums of the user's
past where the model has them. Only questions whose answers are complete at the cut-off teach, see `maturity`;
validation is later in time, and a training question whose answers were not complete when validation began is left out,
as it tells what happened there. How the networks learn is in `fitting`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stream_tgat.graph.decayed import compressed, decayed_sums
from stream_tgat.nn.model import Model
from stream_tgat.training.fitting import LEAST_POSITIVES, HeadResult, HeadSettings, Questions, fit_heads
from stream_tgat.training.log import LabelSet
from stream_tgat.training.scoring import TemporalGraph

__all__ = [
    "HeadResult",
    "HeadSettings",
    "HeadTask",
    "Questions",
    "embed_events",
    "event_inputs",
    "head_tasks",
    "known_labels",
    "split_labels",
    "train_heads",
]

EMBED_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class HeadTask:
    """What one head is asked: about the source of each interaction `event` [n] int64, at its time.

    value: [n] float64, NaN where the answer is unknown   train, validation: places in them, apart from each other
    """

    event: NDArray[np.int64]
    value: NDArray[np.float64]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]


def known_labels(labels: LabelSet, times: NDArray[np.float64], cutoff: float) -> LabelSet:
    """Those whose question had its answers complete at the cut-off (unix seconds), and that were known then.

    times: [n] float64, of the interactions
    """
    return labels.select(_complete(labels, times[labels.event], cutoff))


def split_labels(labels: LabelSet, times: NDArray[np.float64], share: float) -> tuple[NDArray[np.int64], ...]:
    """Places to train on and to validate on: validation is the newest `share` by the time of the question.

    times: [n] float64, of the questions, rising. Questions of one time stay together, in validation. Training questions
    whose answers were not complete when validation began are in neither.
    """
    if len(labels) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cut = int(np.searchsorted(times, times[min(int(len(times) * (1 - share)), len(times) - 1)], "left"))
    return np.flatnonzero(_complete(labels, times, times[cut])[:cut]), np.arange(cut, len(times))


def _complete(labels: LabelSet, asked: NDArray[np.float64], moment: float) -> NDArray[np.bool_]:
    """Of questions asked at some times [n], which had their answers at a moment (unix seconds), this one among them."""
    return (labels.known <= moment) & (asked <= labels.maturity.complete_at(moment))


def embed_events(model: Model, graph: TemporalGraph, events: NDArray[np.int64]) -> Tensor:
    """What heads read of interactions [n], without gradient: embedding ‖ `event_inputs`, [n, D + E + S]."""
    interactions = graph.history.interactions
    # By user, so that those embedded together share most of their neighbours, each computed once.
    distinct = np.unique(events)
    distinct = distinct[np.argsort(interactions.source[distinct], kind="stable")]
    order = np.argsort(distinct)
    place = order[np.searchsorted(distinct, events, sorter=order)]
    model.eval()
    parts = [torch.zeros(0, model.config.hidden)]
    with torch.inference_mode():
        for start in range(0, len(distinct), EMBED_AT_ONCE):
            some = distinct[start : start + EMBED_AT_ONCE]
            parts.append(graph.embed(model, interactions.source[some], interactions.time[some]).cpu())
    embedded = torch.cat([torch.cat(parts), event_inputs(model, graph, distinct)], -1)
    return embedded[torch.from_numpy(place)].clone()


def event_inputs(model: Model, graph: TemporalGraph, events: NDArray[np.int64]) -> Tensor:
    """What heads read beside the embedding: edge features of events [n] ‖ the source's decayed sums, [n, E + S]."""
    interactions = graph.history.interactions
    if not model.config.decay_s:
        return torch.from_numpy(interactions.edge[events])
    users, times = interactions.source[events], interactions.time[events]
    sums = compressed(decayed_sums(graph.history, users, times, model.config.decay_s))
    return torch.from_numpy(np.concatenate([interactions.edge[events], sums], 1))


def train_heads(
    model: Model,
    graph: TemporalGraph,
    labels: Mapping[str, LabelSet],
    cutoff: float,
    settings: HeadSettings,
    on_epoch: Callable[[int, float], None] = lambda *_: None,
) -> list[HeadResult]:
    """Train the heads of a model whose encoder stays as it is, then calibrate them and choose thresholds.

    labels: by head, in the order of `model.config.head_names` or any   cutoff: unix seconds
    """
    names = model.config.head_names
    if not names:
        return []
    asked = head_tasks(graph, [labels[name] for name in names], cutoff, settings.validation_share)
    questions = _questions(model, graph, asked)
    fitted = fit_heads(model.heads, names, questions, settings, on_epoch)
    model.calibration.copy_(fitted.calibration)
    model.thresholds.copy_(fitted.thresholds)
    return list(fitted.results)


def head_tasks(
    graph: TemporalGraph, labels: Sequence[LabelSet], cutoff: float, validation_share: float
) -> list[HeadTask]:
    """What heads are asked, from labels whose answers are complete at the cut-off (unix seconds)."""
    times = graph.history.interactions.time
    known = [known_labels(each, times, cutoff) for each in labels]
    return [HeadTask(each.event, each.value, *_parts(each, times[each.event], validation_share)) for each in known]


def _parts(labels: LabelSet, asked: NDArray[np.float64], share: float) -> tuple[NDArray[np.int64], ...]:
    """As `split_labels`; but where that leaves too little to learn from, all that was asked before validation.

    Then validation flatters a little, for answers that were known after it began have taught; a test part knows none.
    """
    train, validation = split_labels(labels, asked, share)
    positives = labels.value[train].sum()
    if min(positives, len(train) - positives) < LEAST_POSITIVES and len(validation):
        train = np.arange(validation[0])
    return train, validation


def _questions(model: Model, graph: TemporalGraph, asked: Sequence[HeadTask]) -> list[Questions]:
    every = np.concatenate([each.event for each in asked])
    inputs = torch.split(embed_events(model, graph, every), [len(each.event) for each in asked])
    return [Questions(some, each.value, each.train, each.validation) for some, each in zip(inputs, asked, strict=True)]
