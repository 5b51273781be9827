"""Random walks over a graph, all of them a step at a time: a loop over steps, never over nodes.

Walks of DeepWalk and Node2vec run over the static graph, those of CTDNE over interactions, forward in time. Every graph
is undirected.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.adjacency import TemporalAdjacency
from stream_tgat.graph.interactions import Interactions

ENDED = -1
"""Fills the places after the end of a walk that could not go on."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Who met whom, both ways, each pair once.

    offsets: [N + 1] int64, node v owns places offsets[v] … offsets[v + 1]
    neighbours: [m] int64, rising within a node   weights: [m] float64, above 0
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, interactions: Interactions, node_count: int, *, weighted: bool) -> Self:
        """The graph of some interactions. weighted: by how often a pair met; otherwise all weights are 1."""
        one = np.concatenate([interactions.source, interactions.destination])
        other = np.concatenate([interactions.destination, interactions.source])
        pairs, met = np.unique(one * node_count + other, return_counts=True)
        offsets = np.zeros(node_count + 1, np.int64)
        np.cumsum(np.bincount(pairs // max(node_count, 1), minlength=node_count), out=offsets[1:])
        neighbours = pairs % max(node_count, 1)
        # An interaction with itself was written down twice.
        met = np.where(pairs // max(node_count, 1) == neighbours, met // 2, met)
        return cls(offsets, neighbours, met.astype(np.float64) if weighted else np.ones(len(pairs)))

    @property
    def node_count(self) -> int:
        """N."""
        return len(self.offsets) - 1

    @cached_property
    def active(self) -> NDArray[np.int64]:
        """Nodes that have a neighbour, rising."""
        return np.flatnonzero(np.diff(self.offsets))

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The node that owns each place: [m] int64."""
        return np.repeat(np.arange(self.node_count), np.diff(self.offsets))

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        """Weights summed up to each place: [m + 1]."""
        return np.concatenate([[0.0], np.cumsum(self.weights)])

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        return self.owners * self.node_count + self.neighbours

    def joined(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether there is an edge between each two nodes: [B] bool."""
        pair = one * self.node_count + other
        place = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        return np.asarray(self._pairs[place] == pair)

    def step(self, nodes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """A neighbour of each node, in proportion to the weights: [B] int64. Every node must have one."""
        low, high = self.offsets[nodes], self.offsets[nodes + 1]
        start = self._cumulative[low]
        drawn = start + random.random(len(nodes)) * (self._cumulative[high] - start)
        place = np.searchsorted(self._cumulative, drawn, "right") - 1
        return np.asarray(self.neighbours[np.clip(place, low, high - 1)])


def random_walks(
    graph: Adjacency, per_node: int, length: int, random: np.random.Generator, p: float = 1.0, q: float = 1.0
) -> NDArray[np.int32]:
    """Walks from every node that has a neighbour: [W, length] int32.

    p, q: a walk that came from t to v goes on to x in proportion to weight(v, x) · α, where α is 1/p back to t, 1 to a
    neighbour of t, 1/q elsewhere (Grover and Leskovec, 2016)
    """
    starts = np.tile(graph.active, per_node)
    walks = np.empty((len(starts), length), np.int32)
    walks[:, 0] = starts
    before, here = starts, starts
    for place in range(1, length):
        there = graph.step(here, random) if place == 1 else _biased_step(graph, before, here, p, q, random)
        walks[:, place] = there
        before, here = here, there
    return walks


def temporal_walks(
    history: TemporalAdjacency, count: int, length: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """Walks over interactions, each strictly later than the one before: [count, length] int32, ENDED after their end.

    The first interaction, its direction and each next one are uniform (Nguyen et al., 2018).
    """
    walks = np.full((count, length), ENDED, np.int32)
    rows = np.arange(len(history.event))
    if len(rows) == 0:
        return walks
    owner = np.searchsorted(history.offsets, rows, "right") - 1
    first = random.integers(0, len(rows), count)
    walks[:, 0] = owner[first]
    going, row = np.arange(count), first
    for place in range(1, length):
        here = history.peer[row]
        walks[going, place] = here
        begin = history.before(here, np.nextafter(history.time[row], np.inf))[1]
        choices = history.offsets[here + 1] - begin
        goes_on = choices > 0
        going, begin, choices = going[goes_on], begin[goes_on], choices[goes_on]
        if len(going) == 0:
            break
        row = begin + random.integers(0, choices)
    return walks


def _biased_step(
    graph: Adjacency,
    before: NDArray[np.int64],
    here: NDArray[np.int64],
    p: float,
    q: float,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """The next node of each walk, by rejection: proposed by weight, accepted in proportion to α."""
    if p == q == 1.0:
        return graph.step(here, random)
    there = np.empty_like(here)
    waiting = np.arange(len(here))
    largest = max(1.0 / p, 1.0, 1.0 / q)
    while len(waiting):
        proposed = graph.step(here[waiting], random)
        came_from = before[waiting]
        bias = np.full(len(waiting), 1.0 / q)
        if q != 1.0:
            bias[graph.joined(came_from, proposed)] = 1.0
        bias[proposed == came_from] = 1.0 / p
        accepted = random.random(len(waiting)) * largest < bias
        there[waiting[accepted]] = proposed[accepted]
        waiting = waiting[~accepted]
    return there
