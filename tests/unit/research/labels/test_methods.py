"""What the heads of a method read, number by number."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from torch import Tensor

from research.labels import LabelTask, label_task
from research.labels.methods import Heads, StaticMethod
from stream_tgat.evaluation.link_prediction import LinkTask
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.log import LabelSet

TABLE = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)


class Given:
    """A method whose vectors are known."""

    name = "given"

    def fit(self, task: LinkTask, seed: int) -> SimpleNamespace:
        return SimpleNamespace(inputs=SimpleNamespace(table=TABLE))


@dataclass(frozen=True, eq=False)
class Reads(Heads):
    """Heads that keep what they are given."""

    inputs: list[Tensor] = field(default_factory=list)

    def scores(self, task: LabelTask, inputs: list[Tensor], seed: int) -> tuple[np.ndarray, ...]:
        self.inputs.extend(inputs)
        return tuple(np.zeros(len(some)) for some in inputs)


def test_static_vectors_of_user_and_item_stand_before_the_features_of_the_interaction() -> None:
    edge = np.array([[0.1], [0.2], [0.3]], np.float32)
    interactions = Interactions.in_time_order([0, 1, 0], [2, 3, 3], [0.0, 1.0, 2.0], edge)
    labels = {"some": LabelSet(np.array([0, 1, 2]), np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0]))}
    task = label_task("small", interactions, None, labels, {"some": np.array([0, 1, 2], np.int8)})
    heads = Reads()
    StaticMethod(Given(), heads).scores(task, 0)
    (read,) = heads.inputs
    np.testing.assert_array_equal(
        read.numpy(),
        np.array([[1, 2, 5, 6, 0.1], [3, 4, 7, 8, 0.2], [1, 2, 7, 8, 0.3]], np.float32),
    )
