"""The prediction heads: a small network per head on a frozen encoder, its calibration and its threshold.

Input is the user's embedding at the time of an interaction and that interaction's features. Only labels known at the
cut-off teach; validation is later in time, and a training label that became known after validation begins is left out,
as it tells what happened there. Once validation has chosen the number of epochs and given calibration and threshold, a
head starts afresh and learns for as long from all known labels, the newest included: they are worth more than the old.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from stream_tgat.nn.model import Model
from stream_tgat.training.calibration import fit_platt, sigmoid, threshold_for_budget, threshold_for_precision
from stream_tgat.training.log import LabelSet
from stream_tgat.training.scoring import Graph

EMBED_AT_ONCE = 1024
LEAST_POSITIVES = 5


@dataclass(frozen=True)
class HeadSettings:
    """How heads are trained.

    batch_size: half positives, half negatives, per head   weight_decay: the L2 penalty λ
    precision: if given, the threshold is the lowest that reaches it on validation; else `alert_budget`, the share of
    questions that may raise an alert
    refit: learn from all known labels in the end
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1.0
    patience: int = 6
    seed: int = 0
    validation_share: float = 0.2
    alert_budget: float = 0.05
    precision: float | None = None
    refit: bool = True


@dataclass(frozen=True, eq=False)
class Questions:
    """What one head learns from and is judged on.

    inputs: [n, D + E] float32, embedding ‖ edge features   value: [n] float64   train, validation: places in them
    """

    inputs: Tensor
    value: NDArray[np.float64]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]

    def all_known(self) -> "Questions":
        """To learn from all of them, with none to be judged on."""
        return Questions(self.inputs, self.value, np.arange(len(self.value)), np.zeros(0, np.int64))


@dataclass(frozen=True)
class HeadResult:
    """How a head came out. trained: False where one class had too few labels; then it stays at the base rate."""

    name: str
    trained: bool
    best_epoch: int
    threshold: float
    base_rate: float
    train_count: int
    validation_value: NDArray[np.float64]
    validation_probability: NDArray[np.float64]


def known_labels(labels: LabelSet, cutoff: float) -> LabelSet:
    """Those that were known at the cut-off (unix seconds)."""
    return labels.select(labels.known <= cutoff)


def split_labels(labels: LabelSet, times: NDArray[np.float64], share: float) -> tuple[NDArray[np.int64], ...]:
    """Places to train on and to validate on: validation is the newest `share` by the time of the question.

    times: [n] float64, of the questions, rising. Questions of one time stay together, in validation. Training questions
    whose answer became known only when validation had begun are in neither.
    """
    if len(labels) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cut = int(np.searchsorted(times, times[min(int(len(times) * (1 - share)), len(times) - 1)], "left"))
    train = np.arange(cut)
    return train[labels.known[:cut] <= times[cut]], np.arange(cut, len(times))


def embed_events(model: Model, graph: Graph, events: NDArray[np.int64]) -> Tensor:
    """The heads' input for interactions [n]: the source's embedding ‖ edge features, [n, D + E], without gradient."""
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
    embedded = torch.cat([torch.cat(parts), torch.from_numpy(interactions.edge[distinct])], -1)
    return embedded[torch.from_numpy(place)].clone()


def train_heads(
    model: Model,
    graph: Graph,
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
    questions = _questions(model, graph, [known_labels(labels[name], cutoff) for name in names], settings)
    teachable = [_teachable(each) for each in questions]
    torch.manual_seed(settings.seed)
    initial = copy.deepcopy(model.heads.state_dict())
    best = _fit(model, questions, teachable, settings, on_epoch)
    results = [
        _finish(model, at, name, questions[at], teachable[at], best[at], settings) for at, name in enumerate(names)
    ]
    if settings.refit and any(teachable):
        model.heads.load_state_dict(initial)
        _fit(model, [each.all_known() for each in questions], teachable, settings, lambda *_: None, best)
    return results


def _questions(model: Model, graph: Graph, labels: list[LabelSet], settings: HeadSettings) -> list[Questions]:
    times = graph.history.interactions.time
    every = np.concatenate([each.event for each in labels])
    inputs = torch.split(embed_events(model, graph, every), [len(each) for each in labels])
    return [
        Questions(some, each.value, *split_labels(each, times[each.event], settings.validation_share))
        for some, each in zip(inputs, labels, strict=True)
    ]


def _teachable(questions: Questions) -> bool:
    positives = questions.value[questions.train].sum()
    return bool(min(positives, len(questions.train) - positives) >= LEAST_POSITIVES)


def _fit(
    model: Model,
    questions: list[Questions],
    teachable: list[bool],
    settings: HeadSettings,
    on_epoch: Callable[[int, float], None],
    stop: list[int] | None = None,
) -> list[int]:
    """Train all heads together, and leave each at its own best epoch: [heads] epochs, −1 where not trained.

    stop: take these epochs instead of the best ones on validation
    """
    width = model.config.hidden + model.config.edge_features
    centre, spread = _standardisation(questions, width)
    parameters = list(model.heads.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    random = np.random.default_rng(settings.seed)
    live = torch.tensor(teachable)
    half = max(settings.batch_size // 2, 1)
    largest = max((len(each.train) for each, ok in zip(questions, teachable, strict=True) if ok), default=0)
    steps = max(-(-largest // settings.batch_size), 1)
    best = [-1] * len(questions)
    best_loss = [float("inf")] * len(questions)
    best_state = [value.detach().clone() for value in parameters]
    last = settings.epochs if stop is None else max(stop) + 1
    for epoch in range(last if any(teachable) else 0):
        model.heads.train()
        for _ in range(steps):
            inputs, truth = _balanced_batch(questions, teachable, half, random, width)
            logits = model.heads(*_split_inputs((inputs - centre) / spread, model.config.hidden))
            losses = binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(0)
            optimiser.zero_grad(set_to_none=True)
            (losses * live).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        model.heads.eval()
        if stop is None:
            validated = [_balanced_loss(model, at, each, centre, spread) for at, each in enumerate(questions)]
        else:
            validated = [-float(epoch) if epoch <= until else float("inf") for until in stop]
        for at, loss in enumerate(validated):
            if teachable[at] and loss < best_loss[at]:
                best[at], best_loss[at] = epoch, loss
                for kept, value in zip(best_state, parameters, strict=True):
                    kept[at] = value.detach()[at]
        on_epoch(epoch, float(np.mean([loss for loss, ok in zip(validated, teachable, strict=True) if ok])))
        if stop is None and all(epoch - at >= settings.patience for at, ok in zip(best, teachable, strict=True) if ok):
            break
    with torch.no_grad():
        for value, kept in zip(parameters, best_state, strict=True):
            value.copy_(kept)
        if any(teachable):
            _fold_standardisation(model, centre, spread)
    model.heads.eval()
    return best


def _standardisation(questions: list[Questions], width: int) -> tuple[Tensor, Tensor]:
    """Mean and spread [D + E] of the training inputs; a column that never changes keeps its scale."""
    rows = [each.inputs[torch.from_numpy(each.train)] for each in questions]
    every = torch.cat([torch.zeros(0, width), *rows])
    if len(every) < 2:
        return torch.zeros(width), torch.ones(width)
    spread = every.std(0)
    return every.mean(0), torch.where(spread > 1e-4, spread, torch.ones(()))


def _fold_standardisation(model: Model, centre: Tensor, spread: Tensor) -> None:
    """Let the first layer read raw inputs: ((x − c) / s) W + b = x (W / s) + (b − (c / s) W)."""
    weight, bias = model.heads.weights[0], model.heads.biases[0]
    weight.div_(spread[:, None])
    bias.sub_((centre @ weight).unsqueeze(1))


def _balanced_batch(
    questions: list[Questions], teachable: list[bool], half: int, random: np.random.Generator, width: int
) -> tuple[Tensor, Tensor]:
    """Half positives, half negatives for each head: inputs [heads, 2 · half, D + E] and truth [2 · half, heads]."""
    batches = []
    for each, ok in zip(questions, teachable, strict=True):
        if not ok:
            batches.append(torch.zeros(2 * half, width))
            continue
        value = each.value[each.train]
        rows = [random.choice(each.train[value == wanted], half) for wanted in (1.0, 0.0)]
        batches.append(each.inputs[torch.from_numpy(np.concatenate(rows))])
    truth = torch.cat([torch.ones(half), torch.zeros(half)])
    return torch.stack(batches), truth[:, None].expand(-1, len(questions))


def _split_inputs(inputs: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    return inputs[..., :hidden], inputs[..., hidden:]


def _logits(model: Model, at: int, inputs: Tensor) -> NDArray[np.float64]:
    """Logits of head `at`: [n]."""
    if len(inputs) == 0:
        return np.zeros(0)
    with torch.inference_mode():
        logits = model.heads(*_split_inputs(inputs, model.config.hidden))[:, at]
    return np.asarray(logits.double().numpy())


def _balanced_loss(model: Model, at: int, questions: Questions, centre: Tensor, spread: Tensor) -> float:
    """Validation loss with both classes weighing the same; +inf where one is missing... the training loss then."""
    rows = questions.validation
    if len(np.unique(questions.value[rows])) < 2:
        rows = questions.train
    value = questions.value[rows]
    if len(np.unique(value)) < 2:
        return float("inf")
    margin = np.where(value == 1, 1.0, -1.0) * _logits(
        model, at, (questions.inputs[torch.from_numpy(rows)] - centre) / spread
    )
    losses = np.logaddexp(0.0, -margin)
    return float((losses[value == 1].mean() + losses[value == 0].mean()) / 2)


def _finish(
    model: Model, at: int, name: str, questions: Questions, trained: bool, best: int, settings: HeadSettings
) -> HeadResult:
    """Calibrate head `at` and choose its threshold, on validation where it has enough of both classes."""
    rows = questions.validation
    positives = questions.value[rows].sum()
    if min(positives, len(rows) - positives) < LEAST_POSITIVES:
        rows = np.concatenate([questions.train, questions.validation])
    value = questions.value[rows]
    base_rate = float((value.sum() + 1) / (len(value) + 2))
    if trained:
        slope, offset = fit_platt(_logits(model, at, questions.inputs[torch.from_numpy(rows)]), value)
    else:
        slope, offset = 0.0, float(np.log(base_rate / (1 - base_rate)))
    with torch.no_grad():
        model.calibration[at] = torch.tensor([slope, offset])
    probability = sigmoid(slope * _logits(model, at, questions.inputs[torch.from_numpy(rows)]) + offset)
    threshold = 1.0 if not trained else None
    if threshold is None and settings.precision is not None:
        threshold = threshold_for_precision(value, probability, settings.precision)
    elif threshold is None:
        threshold = threshold_for_budget(probability, settings.alert_budget)
    model.thresholds[at] = threshold
    judged = questions.validation
    scores = sigmoid(slope * _logits(model, at, questions.inputs[torch.from_numpy(judged)]) + offset)
    return HeadResult(name, trained, best, threshold, base_rate, len(questions.train), questions.value[judged], scores)
