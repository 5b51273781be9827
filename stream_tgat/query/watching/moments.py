"""What the newest embeddings said, within a bound: a node's past as it was told, and all nodes as of a time.

The workers keep a node as it is now; what was said of it before is on topic `embeddings` only. So many of its newest
records as fit into `MOST_BYTES` are kept here, vector included. Written by one thread, read by others.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.topology import Kind

MOST_BYTES: Final = 64 << 20
MOST_ROWS: Final = 200_000
#: Names are sorted anew at most so often.
_SORT_S: Final = 3.0
_NAMES_BYTES: Final = 300
Name = tuple[Kind, str]


@dataclass(frozen=True, eq=False)
class RememberedMoment:
    """A node just before one of its interactions, as topic `embeddings` has it.

    predictions: f4[heads], NaN where nothing was said   vector: f4[D]   time: unix seconds
    """

    interaction: str
    peer: str
    time: float
    predictions: NDArray[np.float32]
    vector: NDArray[np.float32]
    model: int
    late: bool


@dataclass(frozen=True, eq=False)
class Snapshot:
    """N nodes, each at its newest moment not after a time.

    time: f8[N]   vector: f4[N, D]   predictions: f4[N, heads]
    """

    name: list[Name]
    time: NDArray[np.float64]
    vector: NDArray[np.float32]
    predictions: NDArray[np.float32]


class Remembered:
    """The newest moments of all nodes together; the oldest makes room for the next."""

    def __init__(self, heads: Sequence[str], most_bytes: int = MOST_BYTES) -> None:
        self._heads = list(heads)
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._sorted: list[tuple[str, Name]] = []
        self._sorted_at = -math.inf
        self._sorted_of = -1
        self._begin(0)

    def _begin(self, width: int) -> None:
        """Forget all; vectors have `width` numbers from now on."""
        row = 4 * width + 4 * len(self._heads) + _NAMES_BYTES
        self._rows = max(min(MOST_ROWS, self._most_bytes // row), 1) if width else 0
        self._width = width
        self._count = 0
        self._time = np.zeros(self._rows)
        self._model = np.zeros(self._rows, np.int64)
        self._late = np.zeros(self._rows, bool)
        # Which nodes a sample holds, and which rows are of one node, is told by a hash: no list of all nodes ever seen.
        self._hash = np.zeros(self._rows, np.int64)
        self._predictions = np.full((self._rows, len(self._heads)), np.nan, np.float32)
        self._vector = np.zeros((self._rows, width), np.float32)
        self._of: list[Name] = []
        self._interaction: list[str] = []
        self._peer: list[str] = []
        self._numbers: dict[Name, deque[int]] = {}

    def put(self, name: Name, moment: RememberedMoment) -> None:
        """Remember a moment of a node."""
        with self._lock:
            if len(moment.vector) != self._width:
                self._begin(len(moment.vector))
            place = self._count % self._rows
            if self._count >= self._rows:
                self._forget(place)
                self._of[place], self._interaction[place], self._peer[place] = name, moment.interaction, moment.peer
            else:
                self._of.append(name)
                self._interaction.append(moment.interaction)
                self._peer.append(moment.peer)
            self._time[place], self._model[place], self._late[place] = moment.time, moment.model, moment.late
            self._hash[place] = hash(name)
            self._predictions[place], self._vector[place] = moment.predictions, moment.vector
            self._numbers.setdefault(name, deque()).append(self._count)
            self._count += 1

    def _forget(self, place: int) -> None:
        name = self._of[place]
        numbers = self._numbers[name]
        numbers.popleft()
        if not numbers:
            del self._numbers[name]

    def __len__(self) -> int:
        return min(self._count, self._rows)

    @property
    def nodes(self) -> int:
        """Of how many nodes there is a moment."""
        return len(self._numbers)

    def span(self) -> tuple[float, float] | None:
        """The event times of the oldest and of the newest moment; None before the first."""
        with self._lock:
            kept = self._time[: len(self)]
            return (float(kept.min()), float(kept.max())) if len(kept) else None

    def moments(self, name: Name, limit: int) -> list[RememberedMoment]:
        """Up to `limit` moments of a node, those of the newest event times, oldest first."""
        with self._lock:
            places = [number % self._rows for number in self._numbers.get(name, ())]
            places.sort(key=lambda place: self._time[place])
            return [self._moment(place) for place in places[-limit:]]

    def next_time(self, name: Name, after: float) -> float:
        """When a node interacted next after a time, as far as is remembered; infinity for not yet."""
        with self._lock:
            times = (float(self._time[number % self._rows]) for number in self._numbers.get(name, ()))
            return min((each for each in times if each > after), default=math.inf)

    def names(self, prefix: str, kind: Kind | None, limit: int) -> list[Name]:
        """Up to `limit` nodes whose ids begin with a text, whatever the case, in the order of ids."""
        start = prefix.casefold()
        names = self._names_in_order()
        found: list[Name] = []
        for folded, name in names[bisect.bisect_left(names, start, key=lambda each: each[0]) :]:
            if not folded.startswith(start) or len(found) == limit:
                break
            if kind is None or name[0] == kind:
                found.append(name)
        return found

    def as_of(self, at: float, most: int, model: int | None = None) -> Snapshot:
        """Up to `most` nodes at their newest moment not after a time; the same ones at every time.

        model: only moments by this one
        """
        with self._lock:
            kept = self._time[: len(self)] <= at
            if model is not None:
                kept &= self._model[: len(self)] == model
            places = np.flatnonzero(kept)
            arrived = (places - self._count) % self._rows
            places = places[np.lexsort((arrived, self._time[places]))]
            _, newest = np.unique(self._hash[places][::-1], return_index=True)
            # np.unique sorts by hash, so the first ones are a sample that is the same for all times.
            chosen = places[::-1][newest[:most]]
            return Snapshot(
                name=[self._of[place] for place in chosen.tolist()],
                time=self._time[chosen],
                vector=self._vector[chosen],
                predictions=self._predictions[chosen],
            )

    def newest_model(self) -> int | None:
        """The newest model that any moment is by."""
        with self._lock:
            return int(self._model[: len(self)].max()) if len(self) else None

    def _moment(self, place: int) -> RememberedMoment:
        return RememberedMoment(
            interaction=self._interaction[place],
            peer=self._peer[place],
            time=float(self._time[place]),
            predictions=self._predictions[place].copy(),
            vector=self._vector[place].copy(),
            model=int(self._model[place]),
            late=bool(self._late[place]),
        )

    def _names_in_order(self) -> list[tuple[str, Name]]:
        now = time.monotonic()
        if self._sorted_of != self._count and now - self._sorted_at > _SORT_S:
            with self._lock:
                names, self._sorted_of = list(self._numbers), self._count
            self._sorted = sorted((name[1].casefold(), name) for name in names)
            self._sorted_at = now
        return self._sorted
