"""Which destinations did not happen, for evaluation: drawn from a seed and an interaction, never from a state.

So every method is asked about the same destinations, in any order and in any batches. A negative is never a
destination that the source meets at that very time. Training draws its own, elsewhere.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.link_prediction.places import draw_hash, uniform_places
from stream_tgat.evaluation.link_prediction.task import LinkTask
from stream_tgat.graph.first_meetings import FirstMeetings

ABSENT = -1
"""Stands where there is no such destination; that question is left out, not asked with another kind."""


class NegativeKind(StrEnum):
    """Where negative destinations of (source, t) come from; uniform in each, from the source's point of view.

    RANDOM: all destinations of the whole log, as in the code of TGAT, TGN and DyGLib
    EVER_SEEN: those that were a destination before t; the honest part of RANDOM
    NEVER_SEEN: those that first are one at t or later, which a method may tell by their empty past alone
    HISTORICAL: those that the source met in training (Poursafaei et al., 2022: E_train without E_t; there any pair of
    the training edges may be drawn, here the source stays, as in TGB, so that the question remains "whom?")
    INDUCTIVE: those that the source met in validation or test before t and not in training (the same: E_test without
    E_train and E_t, seen so far)
    """

    RANDOM = "random"
    EVER_SEEN = "random, ever seen"
    NEVER_SEEN = "random, never seen"
    HISTORICAL = "historical"
    INDUCTIVE = "inductive"


class EvaluationNegatives:
    """Draws negatives for the interactions of a task."""

    def __init__(self, task: LinkTask, seed: int = 0) -> None:
        interactions = task.interactions
        self._seed = seed
        self._interactions = interactions
        self._now = _Simultaneous(interactions.source, interactions.destination, interactions.time)
        everyone = np.zeros(len(interactions), np.int64)
        self._destinations = FirstMeetings(everyone, interactions.destination, interactions.time)
        learnt, later = task.learnt, interactions.select(slice(task.split.train.stop, None))
        self._historical = FirstMeetings(learnt.source, learnt.destination, learnt.time)
        new = self._historical.places(later.source, later.destination) < 0
        self._inductive = FirstMeetings(later.source[new], later.destination[new], later.time[new])

    def draw(self, kind: NegativeKind, events: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Different destinations that did not happen, for each interaction.

        events: [B] int64, places in the task's interactions
        Returns [B, count] int64; ABSENT on the left where there are fewer than `count`.
        """
        source, time = self._interactions.source[events], self._interactions.time[events]
        pool, owner = self._destinations, np.zeros_like(source)
        match kind:
            case NegativeKind.RANDOM:
                begin, end = pool.all_of(owner)
            case NegativeKind.EVER_SEEN:
                begin, end = pool.before(owner, time)
            case NegativeKind.NEVER_SEEN:
                (_, begin), (_, end) = pool.before(owner, time), pool.all_of(owner)
            case NegativeKind.HISTORICAL:
                pool, owner = self._historical, source
                begin, end = pool.all_of(owner)
            case NegativeKind.INDUCTIVE:
                pool, owner = self._inductive, source
                begin, end = pool.before(owner, time)
        taken = self._now.destinations(source, time)
        hashes = draw_hash(events, time, self._seed * len(NegativeKind) + list(NegativeKind).index(kind))
        places, mask = _choose(begin, end, pool.places(owner[:, None], taken), count, hashes)
        nodes = pool.node[np.where(mask, places, 0)] if len(pool.node) else np.zeros_like(places)
        return np.where(mask, nodes, ABSENT)

    def never_seen(self, events: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which destinations drawn for interactions [B] were none before their time: [B, C] bool, False for ABSENT."""
        owner = np.zeros_like(events)
        place = self._destinations.places(owner[:, None], drawn)
        return place >= self._destinations.before(owner, self._interactions.time[events])[1][:, None]


def _choose(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    taken: NDArray[np.int64],
    count: int,
    hashes: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Choose `count` different places of [begin, end) that are not taken, each subset as likely as the other.

    begin, end: [B]   taken: [B, M], different places; those outside the range do not matter   hashes: [B]
    Returns places and mask, [B, count].
    """
    inside = (taken >= begin[:, None]) & (taken < end[:, None])
    steps = np.sort(np.where(inside, taken - begin[:, None], np.iinfo(np.int64).max), axis=1)
    places, mask = uniform_places(end - begin - inside.sum(1), count, hashes)
    # Of the free places, number p lies behind every taken place that has at most p free ones before it.
    free_before = steps - np.arange(steps.shape[1])
    return begin[:, None] + places + (free_before[:, None, :] <= places[:, :, None]).sum(2), mask


class _Simultaneous:
    """What each source meets at one time."""

    def __init__(self, source: NDArray[np.int64], destination: NDArray[np.int64], time: NDArray[np.float64]) -> None:
        self._times = np.unique(time)
        moment = source * len(self._times) + np.searchsorted(self._times, time)
        self._moment, self._destination = np.unique(np.column_stack([moment, destination]), axis=0).T

    def destinations(self, source: NDArray[np.int64], time: NDArray[np.float64]) -> NDArray[np.int64]:
        """The destinations of each source at each of the log's times: [B, M], different; ABSENT where fewer than M."""
        moment = source * len(self._times) + np.searchsorted(self._times, time)
        begin, end = (np.searchsorted(self._moment, moment, side) for side in ("left", "right"))
        places = begin[:, None] + np.arange((end - begin).max(initial=0))
        exists = places < end[:, None]
        return np.where(exists, self._destination[np.where(exists, places, 0)], ABSENT)
