"""Which destinations did *not* happen: the other half of a link prediction batch.

Drawn from a seed and a position, never from a state: the same for every model and in every order.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.first_meetings import FirstMeetings
from stream_tgat.graph.interactions import Interactions


class Negatives(Protocol):
    """A way to draw destinations."""

    def draw(self, times: NDArray[np.float64], count: int, place: tuple[int, ...]) -> NDArray[np.int64]:
        """`count` negatives for each time: [B, count] int64.

        place: where in training this is, such as (epoch, batch); the same place gives the same negatives
        """
        ...


class RandomNegatives:
    """Uniform over the destinations seen strictly before each time, so that no answer hides in an id that only the
    future knows.
    """

    def __init__(self, interactions: Interactions, seed: int = 0) -> None:
        self._seed = seed
        nodes, first = np.unique(interactions.destination, return_index=True)
        order = np.argsort(interactions.time[first], kind="stable")
        self._nodes = nodes[order]
        self._first_seen = interactions.time[first][order]

    def draw(self, times: NDArray[np.float64], count: int, place: tuple[int, ...]) -> NDArray[np.int64]:
        """As in `Negatives`; at a time before which nothing was seen, the earliest destinations stand in."""
        random = np.random.default_rng((self._seed, *place)).random((len(times), count))
        seen = np.searchsorted(self._first_seen, times, "left")
        earliest = np.searchsorted(self._first_seen, self._first_seen[0], "right")
        places = (random * np.maximum(seen, earliest)[:, None]).astype(np.int64)
        return np.asarray(self._nodes[places])


class AnyDestination:
    """Uniform over all destinations of some interactions, whenever they come: the protocol of published tables.

    One that has not been seen yet is easy to tell from a true destination, so figures come out higher.
    """

    def __init__(self, interactions: Interactions, seed: int = 0) -> None:
        self._seed = seed
        self._nodes = np.unique(interactions.destination)

    def draw(self, times: NDArray[np.float64], count: int, place: tuple[int, ...]) -> NDArray[np.int64]:
        """As in `Negatives`."""
        places = np.random.default_rng((self._seed, *place)).integers(len(self._nodes), size=(len(times), count))
        return np.asarray(self._nodes[places])


class HistoricalNegatives:
    """Destinations that the source met before and does not meet now: what tells *when* a pair meets again.

    Random negatives hardly ever are such, so that to them any meeting of the past says yes.
    """

    def __init__(self, interactions: Interactions, seed: int = 0) -> None:
        self._seed = seed
        self._met = FirstMeetings(interactions.source, interactions.destination, interactions.time)

    def put(
        self, drawn: NDArray[np.int64], happened: Interactions, share: float, place: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Other negatives [B, Q], a share of them replaced by historical ones; place: as in `Negatives`.

        happened: the B interactions   Where the source met nobody else strictly before, the others stay.
        """
        begin, end = self._met.before(happened.source, happened.time)
        itself = self._met.places(happened.source, happened.destination)
        itself = np.where((begin <= itself) & (itself < end), itself, end)
        free = end - begin - (itself < end)
        random = np.random.default_rng((self._seed, *place)).random((2, *drawn.shape))
        places = begin[:, None] + (random[0] * free[:, None]).astype(np.int64)
        places += places >= itself[:, None]
        chosen = (random[1] < share) & (free > 0)[:, None]
        result = drawn.copy()
        result[chosen] = self._met.node[places[chosen]]
        return result
