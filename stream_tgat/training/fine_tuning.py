"""The encoder learns from answers: what links need to know of a user's past may be too little for a question.

Heads are fitted on the encoder as links left it. Then both learn together, from the same answers; links go on teaching
beside them, so that the affinity still reads what the encoder says. Judged is the mean AUC over heads on validation,
later in time, and epoch −1 is the encoder as it was: it stays where answers bring nothing. The heads made here are
thrown away; those that serve are fitted on the encoder that comes out, as on any other.

Everything random is a function of the seed, the epoch and the step.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from stream_tgat.nn.heads import PredictionHeads
from stream_tgat.nn.model import Model
from stream_tgat.training.epochs import TrainingCallbacks
from stream_tgat.training.fitting import LEAST_POSITIVES, HeadSettings, Questions, fit_heads, read_standardised
from stream_tgat.training.heads import HeadTask, embed_events, event_inputs
from stream_tgat.training.negatives import Negatives
from stream_tgat.training.scoring import TemporalGraph, link_loss

PENALTIES = (0.01, 0.1)
"""Tried for the heads that the encoder learns with."""


@dataclass(frozen=True)
class FineTuning:
    """How answers teach the encoder.

    epochs: at most; 0: not at all. One sees as many answers of the rarer class as there are, and as many of the other
    batch_size: of each head, half positives, half negatives
    learning_rate: of the encoder and the affinity   patience: epochs without a better one
    by_validation: keep the epoch that validates best; else the last one
    """

    epochs: int = 0
    batch_size: int = 64
    learning_rate: float = 3e-4
    patience: int = 10
    seed: int = 0
    by_validation: bool = True


@dataclass(frozen=True, eq=False)
class LinkLesson:
    """What links teach beside the answers: in a step, `batch_size` of the interactions `events` [n] int64."""

    events: NDArray[np.int64]
    negatives: Negatives
    count: int = 1
    batch_size: int = 64

    def loss(self, model: Model, graph: TemporalGraph, place: tuple[int, int]) -> Tensor:
        """The loss of the step (epoch, number): links of one stretch of time."""
        start = np.random.default_rng(place).integers(max(len(self.events) - self.batch_size, 0) + 1)
        batch = self.events[start : start + self.batch_size]
        drawn = self.negatives.draw(graph.history.interactions.time[batch], self.count, place)
        return link_loss(model, graph, batch, drawn)


@dataclass(frozen=True)
class FineTuned:
    """How it went. before: mean AUC on validation of the encoder as it was; best: the epoch kept, −1 being that.

    aucs: [epochs], the mean AUC after each
    """

    before: float = float("nan")
    aucs: tuple[float, ...] = ()
    best: int = -1


def fine_tune(
    model: Model,
    graph: TemporalGraph,
    asked: Sequence[HeadTask],
    settings: FineTuning,
    lesson: LinkLesson | None = None,
    progress: TrainingCallbacks | None = None,
) -> FineTuned:
    """Let answers teach a model's encoder, and leave in it the epoch that validates best, or what it was.

    asked: of each head; heads with too few answers, in training or on validation, do not teach
    Nothing happens where no head teaches.
    """
    teaching = [each for each in asked if _teaches(each)]
    if settings.epochs < 1 or not teaching:
        return FineTuned()
    run = _FineTuningRun(model, graph, teaching, settings, lesson)
    before = best_auc = run.validated()
    aucs: list[float] = []
    best, kept = -1, copy.deepcopy(model.state_dict())
    for epoch in range(settings.epochs):
        aucs.append(run.epoch(epoch, progress or TrainingCallbacks()))
        if aucs[-1] > best_auc or not settings.by_validation:
            best, best_auc, kept = epoch, aucs[-1], copy.deepcopy(model.state_dict())
        if epoch - best >= settings.patience or np.isneginf(aucs[-1]):
            break
    model.load_state_dict(kept)
    return FineTuned(before, tuple(aucs), best)


class _FineTuningRun:
    """A fine-tuning under way: the model, heads that read standardised inputs, and the optimiser of both."""

    def __init__(
        self,
        model: Model,
        graph: TemporalGraph,
        asked: Sequence[HeadTask],
        settings: FineTuning,
        lesson: LinkLesson | None,
    ) -> None:
        self.model, self.graph, self.asked = model, graph, asked
        self.settings, self.lesson = settings, lesson
        inputs = self._inputs([each.event for each in asked])
        questions = [
            Questions(some, each.value, each.train, each.validation) for some, each in zip(inputs, asked, strict=True)
        ]
        config = model.config
        torch.manual_seed(settings.seed)
        self.heads = PredictionHeads(len(asked), inputs[0].shape[1], config.head_hidden, config.head_dropout)
        names = [str(at) for at in range(len(asked))]
        fit = HeadSettings(penalties=PENALTIES, seed=settings.seed, refit=False)
        self.penalties = torch.tensor([each.penalty for each in fit_heads(self.heads, names, questions, fit).results])
        self.head_learning_rate = fit.learning_rate / 5  # these heads have learnt
        self.centre, self.spread = read_standardised(self.heads, questions)
        encoder = [*model.encoder.parameters(), *(model.affinity.parameters() if lesson else ())]
        self.optimiser = torch.optim.Adam(
            [
                {"params": encoder, "lr": settings.learning_rate},
                {"params": list(self.heads.parameters()), "lr": self.head_learning_rate},
            ]
        )
        self.half = max(settings.batch_size // 2, 1)
        self.steps = -(-max(each.rarer() for each in questions) // self.half)

    def epoch(self, number: int, progress: TrainingCallbacks) -> float:
        """Take the steps of an epoch, and validate; minus infinity where the encoder has gone astray."""
        try:
            self._steps(number, progress)
            return self.validated()
        except ZeroDivisionError:  # of the compiled loops, by a frequency that has overflowed
            return float("-inf")

    def _steps(self, number: int, progress: TrainingCallbacks) -> None:
        random = np.random.default_rng((self.settings.seed, number))
        total = 0.0
        self.heads.train()
        for step in range(self.steps):
            place = (self.settings.seed, number, step)
            torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint32)[0]))
            self.model.train()
            loss = self._answers_loss(random)
            total += float(loss.detach()) / len(self.asked)
            if self.lesson is not None:
                loss = loss + self.lesson.loss(self.model, self.graph, (number, step))
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            self.heads.shrink(1 - self.head_learning_rate * self.penalties)
            self.model.eval()
            progress.on_batch(number, step + 1, self.steps, total / (step + 1))
        self.heads.eval()

    def validated(self) -> float:
        """Mean AUC over heads on validation; minus infinity where it is no number."""
        judged = [each.event[each.validation] for each in self.asked]
        aucs = []
        for at, (inputs, each) in enumerate(zip(self._inputs(judged), self.asked, strict=True)):
            with torch.inference_mode():
                logit = self.heads(self._standardised(inputs), inputs[:, :0], at)[:, 0]
            if not bool(logit.isfinite().all()):
                return float("-inf")
            aucs.append(float(roc_auc_score(each.value[each.validation], logit.numpy())))
        return float(np.mean(aucs))

    def _answers_loss(self, random: np.random.Generator) -> Tensor:
        """Cross-entropy of a balanced batch for each head, summed over heads."""
        events = np.concatenate([each.event[_balanced(each, self.half, random)] for each in self.asked])
        interactions = self.graph.history.interactions
        embedded = self.graph.embed(self.model, interactions.source[events], interactions.time[events]).cpu()
        inputs = torch.cat([embedded, event_inputs(self.model, self.graph, events)], -1)
        inputs = self._standardised(inputs).view(len(self.asked), 2 * self.half, -1)
        logits = self.heads(inputs, inputs[..., :0])
        truth = torch.cat([torch.ones(self.half), torch.zeros(self.half)])[:, None].expand_as(logits)
        return binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(0).sum()

    def _standardised(self, inputs: Tensor) -> Tensor:
        return (inputs - self.centre) / self.spread

    def _inputs(self, events: Sequence[NDArray[np.int64]]) -> Sequence[Tensor]:
        """What heads read at some interactions, as the encoder is now."""
        return torch.split(embed_events(self.model, self.graph, np.concatenate(events)), list(map(len, events)))


def _teaches(asked: HeadTask) -> bool:
    """Whether both classes are frequent enough, in training and on validation."""
    return all(
        LEAST_POSITIVES <= asked.value[part].sum() <= len(part) - LEAST_POSITIVES
        for part in (asked.train, asked.validation)
    )


def _balanced(asked: HeadTask, half: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Half positives, then half negatives, of the training questions: [2 · half]."""
    value = asked.value[asked.train]
    return np.concatenate([random.choice(asked.train[value == wanted], half) for wanted in (1.0, 0.0)])
