"""Which destinations did *not* happen: the other half of a link prediction batch.

A negative is a destination that had been seen before the positive's time, so that no answer hides in an id that only
the future knows. Drawn from a seed and a position, never from a state: the same for every model and in every order.
"""

import numpy as np
from numpy.typing import NDArray

from stream_tgat.graph.interactions import Interactions


class RandomNegatives:
    """Uniform over the destinations seen strictly before each time."""

    def __init__(self, interactions: Interactions, seed: int = 0) -> None:
        self._seed = seed
        nodes, first = np.unique(interactions.destination, return_index=True)
        order = np.argsort(interactions.time[first], kind="stable")
        self._nodes = nodes[order]
        self._first_seen = interactions.time[first][order]

    def draw(self, times: NDArray[np.float64], count: int, place: tuple[int, ...]) -> NDArray[np.int64]:
        """`count` negatives for each time: [B, count] int64.

        place: where in training this is, such as (epoch, batch); the same place gives the same negatives
        At a time before which nothing was seen, the earliest destinations stand in.
        """
        random = np.random.default_rng((self._seed, *place)).random((len(times), count))
        seen = np.searchsorted(self._first_seen, times, "left")
        earliest = np.searchsorted(self._first_seen, self._first_seen[0], "right")
        places = (random * np.maximum(seen, earliest)[:, None]).astype(np.int64)
        return np.asarray(self._nodes[places])
