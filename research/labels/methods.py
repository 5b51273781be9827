"""What a method of predictions about the user is, and those that are not trees.

A graph network learns from links, may be taught by the answers known, and is frozen; then heads read the embedding and
the features of the interaction that is asked about. A method with one vector a node gives its heads the vectors of both
nodes of the interaction.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.baselines.static import StaticScorer
from research.baselines.temporal import TemporalMethod
from research.labels.task import HeadQuestions, LabelTask
from stream_tgat.evaluation.link_prediction.model_scorer import ModelScorer
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.nn.heads import PredictionHeads
from stream_tgat.training.fine_tuning import FineTuning, LinkLesson, fine_tune
from stream_tgat.training.fitting import FittedHeads, HeadSettings, Questions, fit_heads
from stream_tgat.training.heads import HeadTask, embed_events
from stream_tgat.training.negatives import AnyDestination

HEAD_HIDDEN = (80, 10)

NO_TUNING = FineTuning()
"""Links alone teach an encoder."""


class LabelMethod(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str:
        """As the table calls it."""
        ...

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """A score for every question of each target: [n] each, higher means likelier, finite.

        task: as at the cut-off, so that an answer that is not known is NaN. The score of a question may come from all
        interactions strictly before it, and from the one that it is asked at. Validation questions are answered from
        what training's answers taught, test questions from what both parts' did.
        """
        ...


class StaticEmbedding(Protocol):
    """A method of link prediction that ends with one vector a node."""

    @property
    def name(self) -> str:
        """As tables have it."""
        ...

    def fit(self, task: LinkTask, seed: int) -> StaticScorer:
        """As a method of link prediction."""
        ...


@dataclass(frozen=True, eq=False)
class TrainedHeads:
    """Networks that have learnt, and what belongs to them."""

    network: PredictionHeads
    fitted: FittedHeads

    def probability(self, at: int, inputs: Tensor) -> NDArray[np.float64]:
        """What head `at` says to inputs [n, W]: [n]."""
        slope, offset = self.fitted.calibration[at].double()
        with torch.inference_mode():
            logit = self.network(inputs, inputs[:, :0], at)[:, 0].double()
        return torch.sigmoid(slope * logit + offset).numpy().copy()


@dataclass(frozen=True, eq=False)
class Heads:
    """The networks over a method's inputs, the same for every method.

    dropout: of the hidden units   members: networks whose mean a head is
    """

    settings: HeadSettings = field(default_factory=HeadSettings)
    dropout: float = 0.5
    members: int = 1

    def fit(self, task: LabelTask, inputs: list[Tensor], seed: int) -> TrainedHeads:
        """Learn the answers that a task shows, from inputs [n, W] of each target's questions."""
        questions = [
            Questions(some, target.labels.value, target.train, target.validation)
            for some, target in zip(inputs, task.targets, strict=True)
        ]
        torch.manual_seed(seed)
        network = PredictionHeads(len(questions), inputs[0].shape[1], HEAD_HIDDEN, self.dropout, self.members)
        return TrainedHeads(network, fit_heads(network, task.head_names, questions, replace(self.settings, seed=seed)))

    def scores(self, task: LabelTask, inputs: list[Tensor], seed: int) -> tuple[NDArray[np.float64], ...]:
        """Probabilities for every question, from inputs [n, W] of each target."""
        trained = self.fit(task, inputs, seed)
        result = []
        for at, (some, target) in enumerate(zip(inputs, task.targets, strict=True)):
            score = trained.probability(at, some)
            score[target.validation] = trained.fitted.results[at].validation_probability
            result.append(score)
        return tuple(result)


def event_features(task: LabelTask, target: HeadQuestions) -> Tensor:
    """Features of the interaction that each question is asked at: [n, E]."""
    return torch.from_numpy(task.interactions.edge[target.labels.event])


def encoded(encoder: TemporalMethod, task: LabelTask, seed: int, tuning: FineTuning = NO_TUNING) -> list[Tensor]:
    """[embedding ‖ features of the interaction], [n, W] for each target, from an encoder that learnt from links.

    tuning: how the answers that the task shows teach it then
    """
    fitted = encoder.fit(task.links(), seed)
    _tune(fitted, encoder, task, replace(tuning, seed=seed))
    return inputs_of(fitted, task)


def inputs_of(fitted: ModelScorer, task: LabelTask) -> list[Tensor]:
    """[embedding ‖ features of the interaction], [n, W] for each target, from a trained encoder."""
    events = [target.labels.event for target in task.targets]
    return list(torch.split(embed_events(fitted.model, fitted.graph, np.concatenate(events)), list(map(len, events))))


def _tune(fitted: ModelScorer, encoder: TemporalMethod, task: LabelTask, tuning: FineTuning) -> None:
    links = task.links()
    asked = [HeadTask(each.labels.event, each.labels.value, each.train, each.validation) for each in task.targets]
    lesson = LinkLesson(links.train, AnyDestination(links.learnt, tuning.seed), encoder.settings.negatives)
    fine_tune(fitted.model, fitted.graph, asked, tuning, lesson)


@dataclass(frozen=True, eq=False)
class EncoderMethod:
    """A graph network trained by links and then, if so wanted, by answers; frozen, with heads over
    [embedding ‖ features of the interaction].
    """

    encoder: TemporalMethod
    heads: Heads = field(default_factory=Heads)
    tuning: FineTuning = NO_TUNING

    @property
    def name(self) -> str:
        """That of the encoder, and whether answers taught it."""
        return f"{self.encoder.name}, fine-tuned" if self.tuning.epochs else self.encoder.name

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        return self.heads.scores(task, encoded(self.encoder, task, seed, self.tuning), seed)


@dataclass(frozen=True, eq=False)
class StaticMethod:
    """Vectors from what is before the cut-off, heads over [user's ‖ item's ‖ features of the interaction].

    A node that was not seen until then has a zero vector.
    """

    embedding: StaticEmbedding
    heads: Heads = field(default_factory=Heads)

    @property
    def name(self) -> str:
        """That of the embedding."""
        return self.embedding.name

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        table = torch.from_numpy(self.embedding.fit(task.links(), seed).inputs.table)
        interactions = task.interactions

        def read(event: NDArray[np.int64]) -> Tensor:
            ends = (torch.from_numpy(nodes[event]) for nodes in (interactions.source, interactions.destination))
            return torch.cat([*(table[nodes] for nodes in ends), torch.from_numpy(interactions.edge[event])], -1)

        return self.heads.scores(task, [read(target.labels.event) for target in task.targets], seed)


@dataclass(frozen=True)
class EventOnly:
    """Heads over the features of the interaction alone: what all others must add something to."""

    heads: Heads = field(default_factory=Heads)
    name: str = "MLP on the interaction alone"

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:
        """As `LabelMethod` says."""
        return self.heads.scores(task, [event_features(task, target) for target in task.targets], seed)


@dataclass(frozen=True)
class Activity:
    """The trivial rule: the more interactions a user had in the time before, the likelier; or the less.

    window_s: how long before   sign: −1 for the less
    """

    window_s: float
    sign: float = 1.0
    name: str = "Recent activity"

    def scores(self, task: LabelTask, seed: int) -> tuple[NDArray[np.float64], ...]:  # noqa: ARG002  # nothing is random
        """As `LabelMethod` says."""
        history = TemporalAdjacency(task.interactions)

        def count(event: NDArray[np.int64]) -> NDArray[np.float64]:
            user, time = task.interactions.source[event], task.interactions.time[event]
            recent = history.before(user, time)[1] - history.before(user, time - self.window_s)[1]
            return self.sign * recent.astype(np.float64)

        return tuple(count(target.labels.event) for target in task.targets)
