"""A link prediction task: which interactions are learnt from, which are asked about, and who is new in them.

Every method gets the same task; it fixes the split and the hidden nodes, and knows no method.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split, chronological_split, hold_out_nodes


class Part(StrEnum):
    """Interactions that are asked about."""

    VALIDATION = "validation"
    TEST = "test"


class Group(StrEnum):
    """Interactions by who is unseen in them: in no interaction that training learns from.

    What some papers call transductive is ALL, what others call so is SEEN; inductive is UNSEEN.
    """

    ALL = "all"
    SEEN = "seen-seen"
    UNSEEN = "at least one unseen"
    BOTH_UNSEEN = "both unseen"


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Interactions, their split by time, and the nodes hidden from training.

    hidden: [N] bool, nodes whose interactions are left out of training   node_features: [N, F] float32, or None
    """

    name: str
    interactions: Interactions
    split: Split
    hidden: NDArray[np.bool_]
    node_features: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        if len(self.hidden) < self.interactions.node_count:
            raise DataError(f"{self.name}: hidden has {len(self.hidden)} nodes of {self.interactions.node_count}")
        if self.node_features is not None and len(self.node_features) != len(self.hidden):
            raise DataError(f"{self.name}: {len(self.node_features)} rows of node features, {len(self.hidden)} nodes")

    @property
    def node_count(self) -> int:
        """N, of which some may never occur."""
        return len(self.hidden)

    @cached_property
    def train(self) -> NDArray[np.int64]:
        """Places of the interactions to learn from: those of the training part without a hidden node, [m]."""
        return self.without_hidden(np.arange(self.split.train.stop))

    @cached_property
    def learnt(self) -> Interactions:
        """The interactions to learn from, by themselves; node numbers stay."""
        return self.interactions.select(self.train)

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Nodes in the interactions that training learns from: [N]."""
        seen = np.zeros(self.node_count, np.bool_)
        seen[self.learnt.source] = True
        seen[self.learnt.destination] = True
        return seen

    def events(self, part: Part) -> NDArray[np.int64]:
        """Places of the interactions asked about, hidden nodes' included."""
        which = self.split.validation if part is Part.VALIDATION else self.split.test
        return np.arange(which.start, which.stop)

    def without_hidden(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some interactions (places) that have no hidden node."""
        ends = self.interactions.source[events], self.interactions.destination[events]
        return events[~(self.hidden[ends[0]] | self.hidden[ends[1]])]

    def in_group(self, events: NDArray[np.int64], group: Group) -> NDArray[np.bool_]:
        """Which of some interactions belong to a group.

        events: [B] int64, places
        Returns [B] bool.
        """
        unseen_source = ~self.seen[self.interactions.source[events]]
        unseen_destination = ~self.seen[self.interactions.destination[events]]
        match group:
            case Group.ALL:
                return np.ones(len(events), np.bool_)
            case Group.SEEN:
                return ~(unseen_source | unseen_destination)
            case Group.UNSEEN:
                return unseen_source | unseen_destination
            case Group.BOTH_UNSEEN:
                return unseen_source & unseen_destination


def link_task(
    name: str,
    interactions: Interactions,
    node_features: NDArray[np.float32] | None = None,
    train: float = 0.70,
    validation: float = 0.15,
    hidden_share: float = 0.1,
    seed: int = 2020,
) -> LinkTask:
    """The task of published tables: 70/15/15 by time, 10 % of all nodes hidden, the same ones for one seed."""
    split = chronological_split(interactions.time, train, validation)
    hidden = hold_out_nodes(interactions, split, hidden_share, seed)
    if node_features is not None and len(node_features) > len(hidden):
        hidden = np.concatenate([hidden, np.zeros(len(node_features) - len(hidden), np.bool_)])
    return LinkTask(name, interactions, split, hidden, node_features)
