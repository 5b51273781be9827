"""The encoder's training: which destination did a source meet at a time (eq. 9, with the signs put right)?

Loss of a batch: −log σ(s(i, j)) − Q · E log σ(−s(i, q)), all embeddings at the same time and from strictly earlier
interactions. The epoch with the best validation average precision is the one kept.

Everything random is a function of the seed, the epoch and the batch, never of a generator that was used before. So
the place in the training is all that a checkpoint has to hold of it.
"""

import copy
import hashlib
import time as clock
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from stream_tgat.errors import TrainingError
from stream_tgat.graph.sampling import Sampler, inverse_timespan, recent, uniform
from stream_tgat.nn.model import Model
from stream_tgat.training.checkpoint import Checkpoint, TrainingSnapshot
from stream_tgat.training.epochs import Epoch, LinkResult, TrainingCallbacks
from stream_tgat.training.negatives import HistoricalNegatives, Negatives, RandomNegatives
from stream_tgat.training.scoring import TemporalGraph, affinities, link_loss

VALIDATION = 1 << 31
"""In the place of an epoch: validation's negatives are the same after every epoch."""

AVERAGE = "average"
"""A parameter's moving average, beside Adam's moments, so that a checkpoint has it too."""

InteractionSubset = slice | NDArray[np.int64]
"""Some of the interactions: a range, or places [n]."""

TrainingSampling = Literal["recent", "uniform", "inverse_timespan"]


@dataclass(frozen=True)
class LinkSettings:
    """How an encoder is trained.

    negatives: Q per positive   historical_share: of the negatives, those that the source met before
    averaging: the share of its past that a moving average of the weights keeps at a step; each epoch is judged, and the
    best one kept, by that average. 0: by the weights as they are
    epoch_events: at most so many interactions an epoch, evenly spread over time; None: all
    validation_events: at most so many for early stopping; None: all
    sampling: which of the candidates are neighbours in training, drawn anew each epoch; validation samples as serving
    does   neighbour_dropout: needs uniform sampling to make sense
    shuffle: batches are consecutive interactions; their order is random, or that of time
    """

    epochs: int = 5
    batch_size: int = 200
    negatives: int = 1
    historical_share: float = 0.0
    learning_rate: float = 1e-4
    averaging: float = 0.0
    patience: int = 3
    seed: int = 0
    epoch_events: int | None = None
    validation_events: int | None = 2000
    neighbour_dropout: float = 0.0
    sampling: TrainingSampling = "recent"
    shuffle: bool = True


def train_links(
    model: Model,
    graph: TemporalGraph,
    train: InteractionSubset,
    validation: InteractionSubset,
    settings: LinkSettings,
    progress: TrainingCallbacks | None = None,
    *,
    training_graph: TemporalGraph | None = None,
    negatives: Negatives | None = None,
    validation_negatives: Negatives | None = None,
    checkpoint: Checkpoint | None = None,
) -> LinkResult:
    """Train a model's encoder and affinity, and leave in it the best epoch.

    train, validation: interactions; embeddings of either see all that is strictly earlier
    training_graph: by default `graph`; else what `train` speaks of, such as the graph without nodes held out
    negatives: by default random among the destinations seen   validation_negatives: by default the same
    checkpoint: where a killed run left off, it goes on, and ends with the weights of one that was not
    Raises TrainingError where the loss or the weights are no longer finite.
    Everything random comes from the seed: the same log and settings give the same weights.
    """
    known = training_graph or graph
    drawn = negatives or RandomNegatives(known.history.interactions, settings.seed)
    judged = validation_negatives or (
        drawn if known is graph else RandomNegatives(graph.history.interactions, settings.seed)
    )
    run = _TrainingRun(model, known, train, drawn, settings, progress or TrainingCallbacks())
    identity = _identity(model, (graph, known), (train, validation), (drawn, judged), settings)
    if checkpoint is not None and (snapshot := checkpoint.load(identity)) is not None:
        run.go_on(snapshot)
    while not run.is_over():
        with run.finite():
            for _ in run.batches():
                if checkpoint is not None and run.done % checkpoint.every_batches == 0:
                    checkpoint.save(identity, run.snapshot())
        with run.finite(), run.averaged():
            run.end_epoch(*evaluate_links(model, graph, judged, validation, settings))
        if checkpoint is not None:
            checkpoint.save(identity, run.snapshot())
    if run.best_weights is not None:
        model.load_state_dict(run.best_weights)
    return LinkResult(tuple(run.epochs), run.best)


def evaluate_links(
    model: Model, graph: TemporalGraph, negatives: Negatives, part: InteractionSubset, settings: LinkSettings
) -> tuple[float, float]:
    """Average precision and accuracy with one negative per interaction, pooled; NaN where the part is empty."""
    events = spread(part, settings.validation_events)
    if len(events) == 0:
        return float("nan"), float("nan")
    positive, negative = score_links(model, graph, negatives, events)
    accuracy = float(((positive > 0).mean() + (negative <= 0).mean()) / 2)
    return pooled_average_precision(positive, negative), accuracy


def score_links(
    model: Model,
    graph: TemporalGraph,
    negatives: Negatives,
    events: NDArray[np.int64],
    count: int = 1,
    batch_size: int = 200,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logits of interactions [n] and of `count` negatives of each [n, count], without dropout and gradient.

    The negatives are those of `drawn_negatives`.
    """
    drawn = drawn_negatives(negatives, graph.history.interactions.time[events], count, batch_size)
    positives, others = [np.zeros(0)], [np.zeros((0, count))]
    model.eval()
    with torch.inference_mode():
        for batch in _batches(np.arange(len(events)), batch_size):
            positive, negative = affinities(model, graph, events[batch], drawn[batch])
            positives.append(positive.double().cpu().numpy())
            others.append(negative.double().cpu().numpy())
    return np.concatenate(positives), np.concatenate(others)


def drawn_negatives(
    negatives: Negatives, times: NDArray[np.float64], count: int = 1, batch_size: int = 200
) -> NDArray[np.int64]:
    """`count` negatives of interactions at some times [n]: [n, count] int64, whoever is then asked to tell them apart.

    A function of their seed and the batch: the same for every model, and for every part of the run.
    """
    drawn = [
        negatives.draw(batch, count, (VALIDATION, number))
        for number, batch in enumerate(times[place : place + batch_size] for place in range(0, len(times), batch_size))
    ]
    return np.concatenate([np.zeros((0, count), np.int64), *drawn])


def pooled_average_precision(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Average precision of all scores together: positive [n], negative of any shape."""
    scores = np.concatenate([positive, negative.ravel()])
    return float(average_precision_score(np.arange(len(scores)) < len(positive), scores))


def spread(part: InteractionSubset, at_most: int | None, phase: float = 0.0) -> NDArray[np.int64]:
    """Places of a part, at most so many of them, evenly spread; `phase` in [0, 1) shifts which."""
    places = np.arange(part.start, max(part.stop, part.start)) if isinstance(part, slice) else part
    if at_most is None or len(places) <= at_most:
        return places
    steps = (np.arange(at_most) + phase) * (len(places) / at_most)
    return np.asarray(places[steps.astype(np.int64)])


class _TrainingRun:
    """A training under way: what changes in its course, and how."""

    def __init__(
        self,
        model: Model,
        graph: TemporalGraph,
        train: InteractionSubset,
        negatives: Negatives,
        settings: LinkSettings,
        progress: TrainingCallbacks,
    ) -> None:
        self.model, self.graph, self.train, self.negatives = model, graph, train, negatives
        self.historical = HistoricalNegatives(graph.history.interactions, settings.seed)
        self.settings, self.progress = settings, progress
        model.encoder.neighbour_dropout = settings.neighbour_dropout
        self.parameters = [*model.encoder.parameters(), *model.affinity.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, lr=settings.learning_rate, foreach=True)
        self.epochs: list[Epoch] = []
        self.best = -1
        self.best_weights: Mapping[str, torch.Tensor] | None = None
        self.done, self.total, self.seconds = 0, 0.0, 0.0

    def is_over(self) -> bool:
        """All epochs are done, or `patience` of them brought nothing."""
        number = len(self.epochs)
        return number >= self.settings.epochs or (self.best >= 0 and number - 1 - self.best >= self.settings.patience)

    def batches(self) -> Iterator[None]:
        """What remains of the epoch, a batch at a time."""
        number, settings = len(self.epochs), self.settings
        random = np.random.default_rng((settings.seed, number))
        events = spread(self.train, settings.epoch_events, random.random())
        batches = list(_batches(events, settings.batch_size))
        if settings.shuffle:
            random.shuffle(batches)
        sampler = _sampler(settings, self.model.config.candidates, number)
        for batch in batches[self.done :]:
            start = clock.perf_counter()
            loss = self._step(batch, sampler, (number, self.done + 1))
            self.done += 1
            self.total += loss * len(batch)
            self.seconds += clock.perf_counter() - start
            self.progress.on_batch(number, self.done, len(batches), loss)
            yield
        self.total /= max(len(events), 1)

    @contextmanager
    def finite(self) -> Iterator[None]:
        """Refuse what is not a number after what is done within; TrainingError says what to do."""
        try:
            yield
        except ZeroDivisionError:  # of the compiled loops, by a frequency that has overflowed
            sound = False
        else:
            sound = all(bool(parameter.isfinite().all()) for parameter in self.parameters)
        if not sound:
            raise TrainingError(
                f"Training went astray in epoch {len(self.epochs) + 1}: its loss or weights are no longer finite. "
                f"Lower training.learning_rate in the topology ({self.settings.learning_rate:g}), or look for huge "
                "numbers among the features and set their clip"
            )

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within, the model has the averages of its weights, where they are averaged."""
        if not self.settings.averaging:
            yield
            return
        learnt = [(parameter, parameter.detach().clone()) for parameter in self.optimiser.state]
        _set((parameter, state[AVERAGE]) for parameter, state in self.optimiser.state.items())
        try:
            yield
        finally:
            _set(learnt)

    def end_epoch(self, average_precision: float, accuracy: float) -> None:
        """Note an epoch's figures, and keep its weights if they are the best so far, or if none can be judged."""
        epoch = Epoch(len(self.epochs), self.total, average_precision, accuracy, self.seconds)
        self.epochs.append(epoch)
        self.done, self.total, self.seconds = 0, 0.0, 0.0
        if self.best < 0 or average_precision > self.epochs[self.best].average_precision:
            self.best_weights = copy.deepcopy(self.model.state_dict())
            self.best = -1 if np.isnan(average_precision) else epoch.number
        self.progress.on_epoch(epoch)

    def snapshot(self) -> TrainingSnapshot:
        """As it stands now."""
        return TrainingSnapshot(
            tuple(self.epochs),
            self.best,
            self.done,
            self.total,
            self.seconds,
            self.model.state_dict(),
            self.best_weights,
            self.optimiser.state_dict()["state"],
        )

    def go_on(self, snapshot: TrainingSnapshot) -> None:
        """Stand where a snapshot stood."""
        self.epochs, self.best = list(snapshot.epochs), snapshot.best
        self.done, self.total, self.seconds = snapshot.done, snapshot.total, snapshot.seconds
        self.model.load_state_dict(snapshot.weights)
        self.best_weights = snapshot.best_weights
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": snapshot.optimiser, "param_groups": groups})

    def _step(self, batch: NDArray[np.int64], sampler: Sampler, place: tuple[int, int]) -> float:
        torch.manual_seed(int(np.random.SeedSequence((self.settings.seed, *place)).generate_state(1, np.uint32)[0]))
        self.model.train()
        happened = self.graph.history.interactions.select(batch)
        drawn = self.negatives.draw(happened.time, self.settings.negatives, place)
        drawn = self.historical.put(drawn, happened, self.settings.historical_share, place)
        self.optimiser.zero_grad(set_to_none=True)
        loss = link_loss(self.model, self.graph, batch, drawn, sampler)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        if self.settings.averaging:
            self._average()
        self.model.eval()
        return float(loss.detach())

    def _average(self) -> None:
        """Move the averages on; early ones, which have little past, keep less of it."""
        for parameter, state in self.optimiser.state.items():
            step = float(state["step"])
            keeps = min(self.settings.averaging, (step - 1) / (step + 9))
            state.setdefault(AVERAGE, parameter.detach().clone()).lerp_(parameter.detach(), 1 - keeps)


def _set(weights: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Give parameters other values."""
    with torch.no_grad():
        for parameter, weight in weights:
            parameter.copy_(weight)


def _sampler(settings: LinkSettings, candidates: int, epoch: int) -> Sampler:
    """The neighbours of an epoch."""
    seed = settings.seed * 1_000_003 + epoch
    if settings.sampling == "uniform":
        return uniform(candidates, seed)
    return inverse_timespan(candidates, seed) if settings.sampling == "inverse_timespan" else recent


def _identity(
    model: Model,
    graphs: tuple[TemporalGraph, TemporalGraph],
    parts: tuple[InteractionSubset, InteractionSubset],
    negatives: tuple[Negatives, Negatives],
    settings: LinkSettings,
) -> str:
    """A hash of all that decides the weights after each batch: how many epochs there may be does not."""
    said = {name: value for name, value in asdict(settings).items() if name not in ("epochs", "patience")}
    digest = hashlib.sha256(orjson.dumps([said, model.config.to_dict()], option=orjson.OPT_SORT_KEYS))
    for value in model.state_dict().values():
        digest.update(value.cpu().numpy().tobytes())
    for part in parts:
        digest.update(spread(part, None).tobytes())
    for graph in graphs:
        interactions = graph.history.interactions
        for array in (interactions.source, interactions.destination, interactions.time, interactions.edge):
            digest.update(array.tobytes())
        if graph.node_features is not None:
            digest.update(graph.node_features.cpu().numpy().tobytes())
    for each in negatives:  # what they give tells them apart
        digest.update(each.draw(graphs[0].history.interactions.time[-100:], 10, (0, 0)).tobytes())
    return digest.hexdigest()


def _batches(events: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Consecutive batches, the last one shorter if need be: no interaction is left out."""
    for start in range(0, len(events), size):
        yield events[start : start + size]
