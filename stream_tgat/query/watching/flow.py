"""How much the stream does, and how fast: by the times at which records were written, whoever reads them when."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Final

import numpy as np

#: So many seconds are told apart, and counted for the rate.
KEPT_S: Final = 120
_RATE_S: Final = 5
_LATENCIES: Final = 4_000
_LATENCY_S: Final = 60.0
_WAITING: Final = 20_000


@dataclass(frozen=True)
class Speed:
    """latency_*_s: from an interaction's record to its user's embedding's, over the last minute; None for none
    by_second: (unix second, interactions embedded in it), oldest first   per_s: over the last complete seconds
    """

    per_s: float
    by_second: list[tuple[int, int]]
    latency_p50_s: float | None
    latency_p99_s: float | None
    latencies: int


class Flow:
    """Counts what is embedded, and joins interactions with their embeddings by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: Counter[int] = Counter()
        # Of either end that came first here; the other one comes soon, or was written before all that is read.
        self._written: OrderedDict[str, float] = OrderedDict()
        self._embedded: OrderedDict[str, float] = OrderedDict()
        self._latencies: deque[tuple[float, float]] = deque(maxlen=_LATENCIES)

    def written(self, interaction: str, at: float) -> None:
        """An interaction's record was written at a time (unix seconds)."""
        with self._lock:
            embedded = self._embedded.pop(interaction, None)
            if embedded is None:
                _put(self._written, interaction, at)
            else:
                self._latencies.append((embedded, embedded - at))

    def embedded(self, interaction: str, at: float) -> None:
        """Its user's embedding was written at a time (unix seconds)."""
        with self._lock:
            if at > time.time() - KEPT_S:
                self._seconds[int(at)] += 1
                if len(self._seconds) > 2 * KEPT_S:
                    self._seconds = Counter(dict(sorted(self._seconds.items())[-KEPT_S:]))
            written = self._written.pop(interaction, None)
            if written is None:
                _put(self._embedded, interaction, at)
            else:
                self._latencies.append((at, at - written))

    def speed(self) -> Speed:
        """As of now."""
        now = time.time()
        last = int(now) - 1
        with self._lock:
            by_second = [(second, self._seconds[second]) for second in range(last - KEPT_S + 1, last + 1)]
            latencies = [latency for at, latency in self._latencies if at > now - _LATENCY_S]
        p50, p99 = np.percentile(latencies, [50, 99]).tolist() if latencies else (None, None)
        return Speed(
            per_s=sum(count for _, count in by_second[-_RATE_S:]) / _RATE_S,
            by_second=by_second,
            latency_p50_s=p50,
            latency_p99_s=p99,
            latencies=len(latencies),
        )


def _put(kept: OrderedDict[str, float], interaction: str, at: float) -> None:
    kept[interaction] = at
    if len(kept) > _WAITING:
        kept.popitem(last=False)
