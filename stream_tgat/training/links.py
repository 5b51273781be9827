"""The encoder's training: which destination did a source meet at a time (eq. 9, with the signs put right)?

Loss of a batch: −log σ(s(i, j)) − Q · E log σ(−s(i, q)), all embeddings at the same time and from strictly earlier
interactions. The epoch with the best validation average precision is the one kept.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.nn.functional import softplus

from stream_tgat.graph.history import History
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.sampling import Sampler, uniform
from stream_tgat.nn.embedding import embed
from stream_tgat.nn.model import Model
from stream_tgat.training.negatives import RandomNegatives

VALIDATION = -1
"""In the place of an epoch: validation's negatives are the same after every epoch."""


@dataclass(frozen=True)
class LinkSettings:
    """How an encoder is trained.

    negatives: Q per positive   epoch_events: at most so many interactions an epoch, evenly spread over time; None: all
    validation_events: at most so many for early stopping   neighbour_dropout: needs uniform sampling to make sense
    """

    epochs: int = 5
    batch_size: int = 200
    negatives: int = 1
    learning_rate: float = 1e-4
    patience: int = 3
    seed: int = 0
    epoch_events: int | None = None
    validation_events: int = 2000
    neighbour_dropout: float = 0.0
    uniform_sampling: bool = False


@dataclass(frozen=True)
class Epoch:
    """One epoch's figures. loss: mean of a positive and its negatives."""

    number: int
    loss: float
    average_precision: float
    accuracy: float


@dataclass(frozen=True)
class LinkResult:
    """All epochs, and which of them the model now holds (−1: none, as there was nothing to validate on)."""

    epochs: tuple[Epoch, ...]
    best: int


@dataclass
class Progress:
    """Whom to tell how far it is. Every call is optional.

    on_batch: (epoch, batches done, batches in all, loss)   on_epoch: (epoch's figures)
    """

    on_batch: Callable[[int, int, int, float], None] = field(default=lambda *_: None)
    on_epoch: Callable[[Epoch], None] = field(default=lambda _: None)


@dataclass(frozen=True, eq=False)
class Graph:
    """What an encoder reads: the history and the nodes' own features ([N, F] on the model's device, or None)."""

    history: History
    node_features: Tensor | None
    sampler: Sampler | None = None

    @classmethod
    def of(
        cls, interactions: Interactions, node_features: NDArray[np.float32] | None, device: torch.device | None = None
    ) -> "Graph":
        """The graph of some interactions; without features any number of nodes."""
        count = None if node_features is None else len(node_features)
        features = None if node_features is None else torch.from_numpy(node_features).to(device)
        return cls(History(interactions, count), features)

    def embed(
        self, model: Model, nodes: NDArray[np.int64], times: NDArray[np.float64], sampler: Sampler | None = None
    ) -> Tensor:
        """h^(L) of each (node, time), from strictly earlier interactions: [B, D]."""
        return embed(model, self.history, self.node_features, nodes, times, sampler=sampler)


def train_links(
    model: Model,
    graph: Graph,
    train: slice,
    validation: slice,
    settings: LinkSettings,
    progress: Progress | None = None,
) -> LinkResult:
    """Train a model's encoder and affinity, and leave in it the best epoch.

    train, validation: ranges of interactions; embeddings of either see all that is strictly earlier
    Everything random comes from the seed: the same log and settings give the same weights.
    """
    progress = progress or Progress()
    torch.manual_seed(settings.seed)
    interactions = graph.history.interactions
    negatives = RandomNegatives(interactions, settings.seed)
    parameters = [*model.encoder.parameters(), *model.affinity.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate, foreach=True)
    model.encoder.neighbour_dropout = settings.neighbour_dropout
    sampler = uniform(model.config.candidates, settings.seed) if settings.uniform_sampling else None
    epochs: list[Epoch] = []
    best, best_state = -1, None
    for number in range(settings.epochs):
        loss = _train_epoch(model, graph, sampler, negatives, optimiser, train, settings, number, progress)
        precision, accuracy = evaluate_links(model, graph, negatives, validation, settings)
        epochs.append(Epoch(number, loss, precision, accuracy))
        progress.on_epoch(epochs[-1])
        if best < 0 or precision > epochs[best].average_precision:
            best, best_state = number, copy.deepcopy(model.state_dict())
        if number - best >= settings.patience:
            break
    if best_state is not None:
        model.load_state_dict(best_state)
    return LinkResult(tuple(epochs), best)


def link_loss(model: Model, graph: Graph, events: NDArray[np.int64], drawn: NDArray[np.int64],
              sampler: Sampler | None = None) -> Tensor:  # fmt: skip
    """The loss of a batch, per positive.

    events: [B] int64, interactions   drawn: [B, Q] int64, negative destinations of each
    """
    positive, negative = affinities(model, graph, events, drawn, sampler)
    return softplus(-positive).mean() + softplus(negative).sum(-1).mean()


def affinities(
    model: Model, graph: Graph, events: NDArray[np.int64], drawn: NDArray[np.int64], sampler: Sampler | None = None
) -> tuple[Tensor, Tensor]:
    """Logits of what happened [B] and of what did not [B, Q]; each distinct (node, time) is embedded once."""
    interactions = graph.history.interactions
    count, per_event = drawn.shape
    times = interactions.time[events]
    nodes = np.concatenate([interactions.source[events], interactions.destination[events], drawn.ravel()])
    embedded = graph.embed(model, nodes, np.concatenate([times, times, np.repeat(times, per_event)]), sampler)
    source, destination, other = torch.split(embedded, [count, count, count * per_event])
    positive = model.affinity(source, destination)
    negative = model.affinity(source.repeat_interleave(per_event, 0), other).view(count, per_event)
    return positive, negative


def evaluate_links(
    model: Model, graph: Graph, negatives: RandomNegatives, part: slice, settings: LinkSettings
) -> tuple[float, float]:
    """Average precision and accuracy with one random negative per interaction, pooled; NaN where the part is empty."""
    events = spread(part, settings.validation_events)
    if len(events) == 0:
        return float("nan"), float("nan")
    times = graph.history.interactions.time
    scores = []
    model.eval()
    with torch.inference_mode():
        for number, batch in enumerate(_batches(events, settings.batch_size)):
            drawn = negatives.draw(times[batch], 1, (settings.epochs + 1, number))
            positive, negative = affinities(model, graph, batch, drawn)
            scores.append(torch.stack([positive, negative.squeeze(-1)]).cpu().numpy())
    score = np.concatenate(scores, 1).astype(np.float64)
    truth = np.repeat([1, 0], score.shape[1])
    accuracy = float(((score[0] > 0).mean() + (score[1] <= 0).mean()) / 2)
    return float(average_precision_score(truth, score.ravel())), accuracy


def spread(part: slice, at_most: int | None, phase: float = 0.0) -> NDArray[np.int64]:
    """Places of a range, at most so many of them, evenly spread; `phase` in [0, 1) shifts which."""
    count = max(part.stop - part.start, 0)
    if at_most is None or count <= at_most:
        return np.arange(part.start, part.start + count)
    steps = (np.arange(at_most) + phase) * (count / at_most)
    return np.asarray(part.start + steps.astype(np.int64))


def _train_epoch(
    model: Model,
    graph: Graph,
    sampler: Sampler | None,
    negatives: RandomNegatives,
    optimiser: torch.optim.Optimizer,
    train: slice,
    settings: LinkSettings,
    number: int,
    progress: Progress,
) -> float:
    """One pass in time order; the mean loss."""
    random = np.random.default_rng((settings.seed, number))
    events = spread(train, settings.epoch_events, random.random())
    batches = list(_batches(events, settings.batch_size))
    random.shuffle(batches)
    times = graph.history.interactions.time
    model.train()
    total = 0.0
    for done, batch in enumerate(batches, start=1):
        drawn = negatives.draw(times[batch], settings.negatives, (number, done))
        optimiser.zero_grad(set_to_none=True)
        loss = link_loss(model, graph, batch, drawn, sampler)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        value = float(loss.detach())
        total += value * len(batch)
        progress.on_batch(number, done, len(batches), value)
    model.eval()
    return total / max(len(events), 1)


def _batches(events: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Consecutive batches, the last one shorter if need be: no interaction is left out."""
    for start in range(0, len(events), size):
        yield events[start : start + size]
