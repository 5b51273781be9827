"""Splits of interactions by time, and nodes held out to measure induction."""

from dataclasses import dataclass

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


def hold_out_nodes(interactions: Interactions, split: Split, share: float = 0.1, seed: int = 0) -> NDArray[np.bool_]:
    """Nodes to hide from training, so that they are new later: that share of those active after training's end.

    Returns [N] bool. Training leaves out every interaction of such a node.
    """
    later = interactions.select(slice(split.train.stop, None))
    nodes = np.unique(np.concatenate([later.source, later.destination]))
    chosen = np.random.default_rng(seed).choice(nodes, round(len(nodes) * share), replace=False)
    hidden = np.zeros(interactions.node_count, np.bool_)
    hidden[chosen] = True
    return hidden


def _after_ties(time: NDArray[np.float64], cut: int) -> int:
    """The first place from `cut` on where a new time begins."""
    return cut if cut in (0, len(time)) else int(np.searchsorted(time, time[cut - 1], side="right"))
