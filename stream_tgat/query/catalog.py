"""All nodes that the stream has told of, with their newest vectors: where candidates come from.

Exact scores and embeddings are asked of the workers; here only has to be good enough to know whom to ask about. So
the vectors are those on topic `latest`, or on `embeddings`, of just before a node's newest interaction; they are apart
by kind and model.

Nearest neighbours are found by one product with all of them, which misses none. A graph index answers in a tenth of the
time or less, and costs a core to keep up with a busy stream, where each event moves two vectors; see docs/query.md.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.topology import Kind

#: Popularity halves in so long, of event time.
HALF_LIFE_S: Final = 7 * 86_400.0
#: From so many nodes on, a search takes so long that other questions should have their turn meanwhile.
LARGE: Final = 50_000
#: Of how many values one is looked at to know about how large the largest are.
_SAMPLED: Final = 64
#: Vectors of so many models are kept: while workers switch, some answer by the one before.
_MODELS: Final = 2
_FIRST: Final = 1024


@dataclass(frozen=True)
class Near:
    """A node with the cosine of the angle to what was asked for."""

    id: str
    cosine: float


class UnitVectors:
    """The newest vector of each node of one kind, by one model, as unit vectors."""

    def __init__(self, width: int) -> None:
        self._unit = np.zeros((_FIRST, width), np.float32)
        self._place: dict[str, int] = {}
        self._ids: list[str] = []

    def __len__(self) -> int:
        return len(self._ids)

    def put(self, node_id: str, vector: NDArray[np.float32]) -> None:
        """A node's vector [D] is now this."""
        place = self._place.get(node_id)
        if place is None:
            place = self._place[node_id] = len(self._ids)
            self._ids.append(node_id)
            if place == len(self._unit):
                self._unit = np.concatenate([self._unit, np.zeros_like(self._unit)])
        length = float(np.linalg.norm(vector))
        self._unit[place] = vector / length if length else 0.0

    def near(self, vectors: NDArray[np.float32], count: int) -> list[list[Near]]:
        """Of each of the vectors [n, D]: the nodes nearest to it, nearest first, at most `count`."""
        lengths = np.linalg.norm(vectors, axis=1)
        # One pass over what is known, which is more than the caches hold, for all that is asked.
        asked = (vectors / np.where(lengths, lengths, 1.0)[:, None]).astype(np.float32)
        cosines = self._unit[: len(self._ids)] @ asked.T
        return [self._near(of_one, count) if length else [] for of_one, length in zip(cosines.T, lengths, strict=True)]

    def _near(self, cosines: NDArray[np.float32], count: int) -> list[Near]:
        return [Near(self._ids[place], float(cosines[place])) for place in _largest(cosines, count).tolist()]

    def of(self, node_id: str) -> NDArray[np.float32] | None:
        """A node's unit vector [D], if it is known."""
        place = self._place.get(node_id)
        return None if place is None else self._unit[place].copy()


class Popularity:
    """How often each item was met lately, and when last: a count that halves in HALF_LIFE_S of event time.

    One thread tells, while others ask.
    """

    def __init__(self) -> None:
        # The logarithm of Σ 2^(t / half-life): as of one fixed time, so counts compare without being faded.
        self._log_count = np.full(_FIRST, -np.inf)
        self._place: dict[str, int] = {}
        self._names: list[str] = []
        self._last: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def met(self, item: str, time: float) -> None:
        """It was met at a time (unix seconds)."""
        now = time / HALF_LIFE_S * math.log(2)
        with self._lock:
            place = self._place.get(item)
            if place is None:
                place = self._place[item] = len(self._names)
                self._names.append(item)
                if place == len(self._log_count):
                    self._log_count = np.concatenate([self._log_count, np.full(place, -np.inf)])
            before = float(self._log_count[place])
            self._log_count[place] = max(before, now) + math.log1p(math.exp(-abs(before - now)))
            if time >= self._last.get(item, -math.inf):
                self._last[item] = time
                self._last.move_to_end(item)

    def popular(self, count: int) -> list[str]:
        """The most popular items, most popular first."""
        with self._lock:
            counts = self._log_count[: len(self._names)].copy()
        return [self._names[place] for place in _largest(counts, count).tolist()]

    def recent(self, count: int) -> list[str]:
        """The items of which the stream has told last, newest first."""
        with self._lock:
            return [item for item, _ in zip(reversed(self._last), range(count), strict=False)]


class Catalog:
    """What the stream has told of nodes."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[int, dict[Kind, UnitVectors]] = OrderedDict()
        self.items = Popularity()
        self.behind = 0

    @property
    def is_large(self) -> bool:
        """Whether a search takes more than a moment."""
        return any(len(each) > LARGE for of_model in tuple(self._vectors.values()) for each in of_model.values())

    def put(self, node_id: str, kind: Kind, model: int, vector: NDArray[np.float32]) -> None:
        """A node's newest embedding by a model; those of all but the newest models are forgotten."""
        if model not in self._vectors:
            self._vectors[model] = {kind: UnitVectors(len(vector)) for kind in ("user", "item")}
            while len(self._vectors) > _MODELS:
                del self._vectors[min(self._vectors)]
            if model not in self._vectors:
                return
        self._vectors[model][kind].put(node_id, vector)

    def vectors(self, kind: Kind, model: int) -> UnitVectors | None:
        """Those of one kind by one model; None before the first."""
        found = self._vectors.get(model)
        return None if found is None else found[kind]


def _largest(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Places of the `count` largest of values [n], largest first, of equal ones the first; all if there are fewer.

    None of them is below the smallest of as many that are the largest of a sample, so the others need not be sorted.
    """
    sample = values[::_SAMPLED]
    if count < len(sample):
        among = np.flatnonzero(values >= np.partition(sample, -count)[-count])
    else:
        among = np.arange(len(values))
    return among[np.argsort(-values[among], kind="stable")[:count]]
