"""Splits of interactions by time, and nodes held out to measure induction."""

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.graph.interactions import Interactions


@dataclass(frozen=True)
class Split:
    """Three consecutive ranges of interactions."""

    train: slice
    validation: slice
    test: slice


def chronological_split(time: NDArray[np.float64], train: float = 0.70, validation: float = 0.15) -> Split:
    """The oldest `train` of all interactions, then `validation` of all, then the rest.

    time: [n] float64, never falling. Interactions of one time are never parted: they go to the older part.
    """
    if not 0.0 < train < train + validation <= 1.0:
        raise DataError(f"train {train} and validation {validation} are shares of one log")
    cuts = [_after_ties(time, round(len(time) * share)) for share in (train, train + validation)]
    return Split(slice(0, cuts[0]), slice(cuts[0], cuts[1]), slice(cuts[1], len(time)))


def hold_out_nodes(interactions: Interactions, split: Split, share: float = 0.1, seed: int = 2020) -> NDArray[np.bool_]:
    """Nodes to hide from training, so that they are new later: `share` of all nodes, drawn among those that are active
    after training's end (all of these, if they are fewer).

    Returns [N] bool. Training leaves out every interaction of such a node.
    The draw is that of the authors' code, which published tables are made with: `random.sample` of a Python set of
    node numbers counted from 1, in the set's own order, which CPython fixes for integers. A sorted list gives others.
    """
    later = slice(split.train.stop, None)
    nodes = set((interactions.source[later] + 1).tolist()) | set((interactions.destination[later] + 1).tolist())
    count = len(np.unique(np.concatenate([interactions.source, interactions.destination])))
    chosen = Random(seed).sample(tuple(nodes), min(int(share * count), len(nodes)))  # noqa: S311  # not a secret
    hidden = np.zeros(interactions.node_count, np.bool_)
    hidden[np.array(chosen, np.int64) - 1] = True
    return hidden


def _after_ties(time: NDArray[np.float64], cut: int) -> int:
    """The first place from `cut` on where a new time begins."""
    return cut if cut in (0, len(time)) else int(np.searchsorted(time, time[cut - 1], side="right"))
