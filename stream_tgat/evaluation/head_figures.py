"""A release's predictions against what turned out: ranking, calibration, and what its alerts are worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stream_tgat.evaluation.bootstrap import Interval, user_bootstrap
from stream_tgat.evaluation.measured_part import MeasuredPart
from stream_tgat.nn.model import Model
from stream_tgat.topology import Head
from stream_tgat.training.heads import embed_events
from stream_tgat.training.log import LabelSet, TrainingLog
from stream_tgat.training.metrics import binary_metrics
from stream_tgat.training.reliability import Reliability, reliability
from stream_tgat.training.scoring import TemporalGraph

AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class HeadAnswers:
    """What a head said, and what turned out: truth, probability [n] float64   user: [n] int64, whose it is."""

    truth: NDArray[np.float64]
    probability: NDArray[np.float64]
    user: NDArray[np.int64]


@dataclass(frozen=True)
class AlertFigures:
    """Answers at or above the threshold. share: of all answers   precision: share of them that came true

    recall: share of what came true that is among them; NaN where there is nothing to share
    """

    threshold: float
    count: int
    share: float
    precision: float
    recall: float


@dataclass(frozen=True)
class HeadFigures:
    """One head. answers: questions with a label   users: distinct ones   auc: with an interval over users

    brier: mean squared error of the probability   calibration_error: see `Reliability.error`
    Figures are NaN where they are undefined, as with one class only.
    """

    head: str
    answers: int
    users: int
    base_rate: float
    auc: Interval
    average_precision: float
    log_loss: float
    brier: float
    calibration_error: float
    alerts: AlertFigures
    reliability: Reliability


def answers_of(
    model: Model,
    log: TrainingLog,
    part: MeasuredPart,
    heads: Sequence[Head],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, HeadAnswers]:
    """What each head that the model has says to the labelled questions of a part, by its name.

    A question is a user's interaction; its answer comes from what is strictly earlier, and its own edge features. Asked
    is what has its answers complete, see `training.maturity`.
    progress: told (questions done, questions in all)
    """
    heads = [head for head in heads if head.name in model.config.head_names]
    labels = [asked_in(log, head, part) for head in heads]
    events = np.unique(np.concatenate([np.zeros(0, np.int64), *(each.event for each in labels)]))
    graph = TemporalGraph.of(log.interactions, log.node_features, next(model.parameters()).device)
    probability = np.zeros((len(events), len(model.config.head_names)))
    for start in range(0, len(events), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        probability[some] = _predict(model, graph, events[some])
        progress(min(start + AT_ONCE, len(events)), len(events))
    return {
        head.name: HeadAnswers(
            each.value,
            probability[np.searchsorted(events, each.event), model.config.head_names.index(head.name)],
            log.interactions.source[each.event],
        )
        for head, each in zip(heads, labels, strict=True)
    }


def head_figures(name: str, answers: HeadAnswers, threshold: float, seed: int = 0, rounds: int = 1000) -> HeadFigures:
    """Figures of one head. threshold: of its alerts   seed, rounds: of the bootstrap over users"""
    truth, probability = answers.truth, answers.probability
    metrics = binary_metrics(truth, probability)
    found = reliability(truth, probability)
    alerts = probability >= threshold
    return HeadFigures(
        head=name,
        answers=len(truth),
        users=len(np.unique(answers.user)),
        base_rate=metrics.base_rate,
        auc=user_bootstrap(truth, probability, answers.user, seed, rounds),
        average_precision=metrics.average_precision,
        log_loss=metrics.log_loss,
        brier=_mean((probability - truth) ** 2),
        calibration_error=found.error,
        alerts=AlertFigures(
            threshold=threshold,
            count=int(alerts.sum()),
            share=_mean(alerts),
            precision=_mean(truth[alerts]),
            recall=_mean(alerts[truth == 1]),
        ),
        reliability=found,
    )


def asked_in(log: TrainingLog, head: Head, part: MeasuredPart) -> LabelSet:
    """Questions of a part whose answers are complete: of newer ones perhaps but one kind of answer is known."""
    labels = log.labels[head.label_name]
    asked = log.interactions.time[labels.event]
    return labels.select((labels.event >= part.first) & (asked <= labels.maturity.complete_until))


def _predict(model: Model, graph: TemporalGraph, events: NDArray[np.int64]) -> NDArray[np.float64]:
    inputs = embed_events(model, graph, events).to(next(model.parameters()).device)
    with torch.inference_mode():
        found = model.predict(inputs[:, : model.config.hidden], inputs[:, model.config.hidden :])
    return np.asarray(found.double().cpu().numpy())


def _mean(values: NDArray[np.bool_] | NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
