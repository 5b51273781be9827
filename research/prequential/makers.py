"""Who makes a model at the beginning of a step: anew, its heads alone, or trees beside it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from research.baselines.temporal import TemporalMethod
from research.labels.methods import Heads, encoded
from research.labels.task import HeadQuestions
from research.labels.trees import BoostedTrees
from research.prequential.steps import PrequentialStream

ScoresByHead = tuple[NDArray[np.float64], ...]
"""Of every question, a row [n] a head: validation's from before its answers were learnt."""


class Maker(Protocol):
    """Makes a model from what is known when a step begins, and lets it answer every question."""

    @property
    def name(self) -> str:
        """As files and tables call it."""
        ...

    @property
    def device(self) -> str:
        """What it trains on, as torch calls it."""
        ...

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:
        """Probabilities by the model of a step, each from interactions strictly before its question.

        scratch: where a training of an encoder goes on that was killed
        """
        ...


@dataclass(frozen=True, eq=False)
class NewModel:
    """Encoder and heads from scratch. The encoder learns links strictly before the step, the heads answers known."""

    encoder: TemporalMethod
    heads: Heads = field(default_factory=Heads)
    name: str = "TGAT"

    @property
    def device(self) -> str:
        """As `Maker` says."""
        return self.encoder.device

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:
        """As `Maker` says."""
        task = stream.task(step)
        return self.heads.scores(task, encoded(self.encoder.kept_in(scratch), task, seed), seed)


@dataclass(frozen=True, eq=False)
class FirstEncoder:
    """New heads over the encoder of the first step, which is trained once for each seed."""

    encoder: TemporalMethod
    heads: Heads = field(default_factory=Heads)
    name: str = "TGAT, first encoder"
    _inputs: dict[int, list[Tensor]] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """As `Maker` says."""
        return self.encoder.device

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:
        """As `Maker` says; in the first step those of `NewModel`."""
        if seed not in self._inputs:
            self._inputs[seed] = encoded(self.encoder.kept_in(scratch), stream.task(0), seed)
        return self.heads.scores(stream.task(step), self._inputs[seed], seed)


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees on all answers known. as_first: only on the newest, as many of each head as the first step knew"""

    trees: BoostedTrees
    as_first: bool = False

    @property
    def name(self) -> str:
        """As files and tables call it."""
        return "Trees, newest answers" if self.as_first else "Trees"

    @property
    def device(self) -> str:
        """As `Maker` says."""
        return "cpu"

    def scores(self, stream: PrequentialStream, step: int, seed: int, scratch: Path | None = None) -> ScoresByHead:  # noqa: ARG002
        """As `Maker` says, but that some answers it validates with became known while validation was under way."""
        task = stream.task(step)
        counts = [_known(target) for target in (stream.task(0) if self.as_first else task).targets]
        targets = tuple(_of_newest(each, len(some)) for each, some in zip(task.targets, counts, strict=True))
        return self.trees.scores(replace(task, targets=targets), seed)


def _known(target: HeadQuestions) -> NDArray[np.int64]:
    return np.flatnonzero(~np.isnan(target.labels.value))


def _of_newest(target: HeadQuestions, count: int) -> HeadQuestions:
    """A target of which only the newest `count` known answers are learnt, also those in neither part."""
    known = _known(target)[-count:]
    validation = np.intersect1d(known, target.validation)
    return replace(target, train=np.setdiff1d(known, validation), validation=validation)
