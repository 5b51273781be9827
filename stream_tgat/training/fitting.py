"""How prediction heads learn from inputs and answers: several heads, and several L2 penalties of each, at once.

Each member of a head is stopped, and the penalty of all of them chosen, by the AUC on the head's validation, where
calibration and threshold come from too. Then a head starts afresh and learns for as long from all known answers, the
newest included: they are worth more than the old. Knows no encoder: an input may be any vector.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from stream_tgat.nn.heads import PredictionHeads
from stream_tgat.training.calibration import fit_platt, sigmoid, threshold_for_budget, threshold_for_precision

PENALTIES = (0.001, 0.01, 0.05, 0.1, 0.2)
"""Those that the paper tries."""

LEAST_POSITIVES = 5

FURTHEST = 8.0
"""Spreads from the mean at which an input is clipped: sums and amounts have long tails, which a few rows would rule."""


@dataclass(frozen=True)
class HeadSettings:
    """How heads are trained.

    epochs: at most; one sees as many answers of the rarer class as there are, and as many of the other
    batch_size: half positives, half negatives, per head
    penalties: each L2 penalty λ to try, the one that validates best is kept, head by head. It is decoupled: Adam would
    undo it, as a term of the loss, where gradients are large (Loshchilov and Hutter, 2019)
    precision: if given, the threshold is the lowest that reaches it on validation; else `alert_budget`, the share of
    questions that may raise an alert
    refit: learn from all known labels in the end
    """

    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 5e-3
    penalties: tuple[float, ...] = PENALTIES
    patience: int = 10
    seed: int = 0
    validation_share: float = 0.2
    alert_budget: float = 0.05
    precision: float | None = None
    refit: bool = True


@dataclass(frozen=True, eq=False)
class Questions:
    """What one head learns from and is judged on.

    inputs: [n, W] float32, such as embedding ‖ edge features   value: [n] float64, NaN where the answer is unknown
    train, validation: places in them. An answer in neither, which became known while validation was under way, is
    looked at only by a refit.
    """

    inputs: Tensor
    value: NDArray[np.float64]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]

    def all_known(self) -> "Questions":
        """To learn from all whose answer is known, those in neither part too, with none to be judged on."""
        return Questions(self.inputs, self.value, np.flatnonzero(~np.isnan(self.value)), np.zeros(0, np.int64))

    def rarer(self) -> int:
        """Training answers of the rarer class."""
        positives = int(self.value[self.train].sum())
        return min(positives, len(self.train) - positives)


@dataclass(frozen=True)
class HeadResult:
    """How a head came out. trained: False where one class had too few labels; then it stays at the base rate.

    best_epoch: of its members the last   penalty: the λ chosen, NaN where not trained
    """

    name: str
    trained: bool
    best_epoch: int
    penalty: float
    threshold: float
    base_rate: float
    validation_value: NDArray[np.float64]
    validation_probability: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """What belongs to the fitted networks: calibration [heads, 2], Platt's a and b; thresholds [heads]."""

    results: tuple[HeadResult, ...]
    calibration: Tensor
    thresholds: Tensor


def fit_heads(
    network: PredictionHeads,
    names: Sequence[str],
    questions: Sequence[Questions],
    settings: HeadSettings,
    on_epoch: Callable[[int, float], None] = lambda *_: None,
) -> FittedHeads:
    """Train the networks of each head, from the weights they have; in the end they read raw inputs.

    on_epoch: is told (epoch, mean over heads of the best AUC among a head's networks)
    """
    torch.manual_seed(settings.seed)
    teachable = [each.rarer() >= LEAST_POSITIVES for each in questions]
    many, members = len(settings.penalties), network.members
    tried = network.repeated(many)
    penalties = torch.tensor(settings.penalties).repeat(len(names) * members)
    best = _fit(tried, questions, penalties, settings, on_epoch)
    chosen = [int(np.reshape(row.score, (members, many)).mean(0).argmax()) for row in best]
    initial = copy.deepcopy(network.state_dict())
    kept = [[many * member + place for member in range(members)] for place in chosen]
    network.take(tried, [many * members * at + place for at, places in enumerate(kept) for place in places])
    epochs = [[row.epoch[place] for place in places] for row, places in zip(best, kept, strict=True)]
    network.eval()  # calibration, threshold and validation are of the network without dropout, as it serves
    finished = [
        _finish(
            network, at, name, questions[at], teachable[at], max(epochs[at]), settings.penalties[chosen[at]], settings
        )
        for at, name in enumerate(names)
    ]
    if settings.refit and any(teachable):
        network.load_state_dict(initial)
        penalties = torch.tensor([settings.penalties[place] for place in chosen]).repeat_interleave(members)
        stop = [epoch for each in epochs for epoch in each]
        _fit(network, [each.all_known() for each in questions], penalties, settings, lambda *_: None, stop)
    network.eval()
    return FittedHeads(
        tuple(each.result for each in finished),
        torch.tensor([[each.slope, each.offset] for each in finished]),
        torch.tensor([each.result.threshold for each in finished]),
    )


@dataclass(frozen=True)
class _Best:
    """Of each network of one head: its best epoch, −1 where not trained, and its validation AUC."""

    epoch: list[int]
    score: list[float]


def _fit(
    network: PredictionHeads,
    questions: Sequence[Questions],
    penalties: Tensor,
    settings: HeadSettings,
    on_epoch: Callable[[int, float], None],
    stop: Sequence[int] | None = None,
) -> list[_Best]:
    """Train all networks together, and leave each at its own best epoch.

    penalties: [networks], each head's networks side by side, a member's together
    stop: take these epochs [networks], not the best ones
    """
    teachable = [each.rarer() >= LEAST_POSITIVES for each in questions]
    per_head = len(penalties) // len(questions)
    best = [_Best([-1] * per_head, [-np.inf] * per_head) for _ in questions]
    if not any(teachable):
        return best
    centre, spread = _standardisation(questions)
    network.lowest.fill_(-FURTHEST)
    network.highest.fill_(FURTHEST)
    parameters = list(network.parameters())
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate)
    random = np.random.default_rng(settings.seed)
    live = torch.tensor(teachable).repeat_interleave(per_head)
    half = max(settings.batch_size // 2, 1)
    steps = -(-max(each.rarer() for each, ok in zip(questions, teachable, strict=True) if ok) // half)
    kept = [value.detach().clone() for value in parameters]
    for epoch in range(settings.epochs if stop is None else max(stop) + 1):
        network.train()
        for _ in range(steps):
            inputs, truth = _balanced_batch(questions, teachable, half, network.members, random)
            logits = network.each(((inputs - centre) / spread).repeat_interleave(per_head // network.members, 0))
            losses = binary_cross_entropy_with_logits(logits, truth.expand_as(logits), reduction="none").mean(0)
            optimiser.zero_grad(set_to_none=True)
            (losses * live).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            network.shrink(1 - settings.learning_rate * penalties)
        network.eval()
        for at, each in enumerate(questions):
            if not teachable[at]:
                continue
            rows = slice(at * per_head, (at + 1) * per_head)
            if stop is None:
                scores = _validated(network, rows, each, centre, spread)
            else:
                scores = [float(epoch) if epoch <= last else -np.inf for last in stop[rows]]
            for place, score in enumerate(scores):
                if score > best[at].score[place]:
                    best[at].epoch[place], best[at].score[place] = epoch, score
                    for copied, value in zip(kept, parameters, strict=True):
                        copied[rows.start + place] = value.detach()[rows.start + place]
        alive = [row for row, ok in zip(best, teachable, strict=True) if ok]
        on_epoch(epoch, float(np.mean([max(row.score) for row in alive])))
        if stop is None and all(epoch - at >= settings.patience for row in alive for at in row.epoch):
            break
    with torch.no_grad():
        for value, copied in zip(parameters, kept, strict=True):
            value.copy_(copied)
        _fold_standardisation(network, centre, spread)
    return best


def _standardisation(questions: Sequence[Questions]) -> tuple[Tensor, Tensor]:
    """Mean and spread [W] of the training inputs; a column that never changes keeps its scale."""
    every = torch.cat([each.inputs[torch.from_numpy(each.train)] for each in questions])
    spread = every.std(0)
    return every.mean(0), torch.where(spread > 1e-4, spread, torch.ones(()))


def _fold_standardisation(network: PredictionHeads, centre: Tensor, spread: Tensor) -> None:
    """Let the first layer read raw inputs: ((x − c) / s) W + b = x (W / s) + (b − (c / s) W), and clip them as such."""
    network.lowest.mul_(spread).add_(centre)
    network.highest.mul_(spread).add_(centre)
    weight, bias = network.weights[0], network.biases[0]
    weight.div_(spread[:, None])
    bias.sub_((centre @ weight).unsqueeze(1))


def read_standardised(network: PredictionHeads, questions: Sequence[Questions]) -> tuple[Tensor, Tensor]:
    """Let fitted networks read inputs less the mean, over the spread, as when they learnt.

    questions: those they were fitted on. Returns mean and spread [W].
    """
    centre, spread = _standardisation(questions)
    with torch.no_grad():
        network.lowest.sub_(centre).div_(spread)
        network.highest.sub_(centre).div_(spread)
        weight, bias = network.weights[0], network.biases[0]
        bias.add_((centre @ weight).unsqueeze(1))
        weight.mul_(spread[:, None])
    return centre, spread


def _balanced_batch(
    questions: Sequence[Questions], teachable: Sequence[bool], half: int, members: int, random: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Half positives, half negatives for each member of each head.

    Returns inputs [heads · members, 2 · half, W] and truth [2 · half, 1].
    """
    batches = []
    for each, ok in zip(questions, teachable, strict=True):
        if not ok:
            batches += [torch.zeros(2 * half, each.inputs.shape[1])] * members
            continue
        value = each.value[each.train]
        for _ in range(members):
            rows = [random.choice(each.train[value == wanted], half) for wanted in (1.0, 0.0)]
            batches.append(each.inputs[torch.from_numpy(np.concatenate(rows))])
    return torch.stack(batches), torch.cat([torch.ones(half), torch.zeros(half)])[:, None]


def _validated(
    network: PredictionHeads, rows: slice, questions: Questions, centre: Tensor, spread: Tensor
) -> list[float]:
    """AUC of some networks on validation; on what they train on, where validation lacks a class."""
    judged = questions.validation
    if len(np.unique(questions.value[judged])) < 2:
        judged = questions.train
    with torch.inference_mode():
        logits = network.each((questions.inputs[torch.from_numpy(judged)] - centre) / spread, rows)
    return _aucs(questions.value[judged] == 1, logits.numpy())


def _aucs(truth: NDArray[np.bool_], scores: NDArray[np.float32]) -> list[float]:
    """AUC of each column of scores [n, networks], all at once; of one class only there is none: NaN."""
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return [float("nan")] * scores.shape[1]
    above = rankdata(scores, axis=0)[truth].sum(0) - positives * (positives + 1) / 2
    return [float(auc) for auc in above / (positives * negatives)]


@dataclass(frozen=True)
class _Finished:
    result: HeadResult
    slope: float
    offset: float


def _finish(
    network: PredictionHeads,
    at: int,
    name: str,
    questions: Questions,
    trained: bool,
    best: int,
    penalty: float,
    settings: HeadSettings,
) -> _Finished:
    """Calibrate head `at` and choose its threshold, on validation where it has enough of both classes."""
    rows = questions.validation
    positives = questions.value[rows].sum()
    if min(positives, len(rows) - positives) < LEAST_POSITIVES:
        rows = np.concatenate([questions.train, questions.validation])
    value = questions.value[rows]
    base_rate = float((value.sum() + 1) / (len(value) + 2))

    def logits(places: NDArray[np.int64]) -> NDArray[np.float64]:
        inputs = questions.inputs[torch.from_numpy(places)]
        with torch.inference_mode():
            return np.asarray(network(inputs, inputs[:, :0], at)[:, 0].double().numpy())

    slope, offset = fit_platt(logits(rows), value) if trained else (0.0, float(np.log(base_rate / (1 - base_rate))))
    probability = sigmoid(slope * logits(rows) + offset)
    if not trained:
        threshold = 1.0
    elif settings.precision is not None:
        threshold = threshold_for_precision(value, probability, settings.precision)
    else:
        threshold = threshold_for_budget(probability, settings.alert_budget)
    judged = questions.validation
    scores = sigmoid(slope * logits(judged) + offset)
    result = HeadResult(
        name,
        trained,
        best,
        penalty if trained else float("nan"),
        threshold,
        base_rate,
        questions.value[judged],
        scores,
    )
    return _Finished(result, slope, offset)
