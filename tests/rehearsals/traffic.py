"""What goes on while an operator does something: steady traffic, and how long each partition had nothing to say."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from tests.integration.equality.deployment import Deployment
from tests.integration.equality.received import records_of
from tests.integration.equality.streams import Log, Record, end_of, random_log

PARTITIONS = 8
_TICK_S = 0.05


def long_log(rate: float, seconds: float, seed: int) -> Log:
    """A random log for so many seconds at a rate, of more nodes the longer it is."""
    count = round(rate * seconds)
    nodes = max(20, count // 50)
    every = max(20, round(rate / 10))
    return random_log(count, partitions=PARTITIONS, seed=seed, users=nodes, items=nodes // 2, punctuation_every=every)


class Traffic:
    """Produces the log of a deployment from a thread of its own, so many interactions a second, until it is stopped.

    sent: interactions so far   seconds: that it took
    """

    def __init__(self, deployment: Deployment, rate: float) -> None:
        self._deployment, self._rate = deployment, rate
        self._records = deployment.log.records
        # Of the first so many records: how many are interactions. Punctuations go along with them.
        self._interactions = np.cumsum([record.value is not None for record in self._records])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self._produced = 0
        self.seconds = 0.0

    @property
    def sent(self) -> int:
        """How many interactions have been produced."""
        return int(self._interactions[self._produced - 1]) if self._produced else 0

    def start(self) -> None:
        """Begin with the first record."""
        self._thread.start()

    def stop(self) -> tuple[Record, ...]:
        """End it, and let nothing wait for more; the records that have been produced, those of the end included."""
        assert self._thread.is_alive(), self._error or "the log was at its end before the rehearsal was: a longer one"
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        sent = self._records[: self._produced]
        end = end_of(max(map(_time, sent)), self._deployment.log.partitions)
        self._deployment.produce(end)
        return (*sent, *end)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while not self._stopped.is_set() and self._produced < len(self._records):
                due = int(np.searchsorted(self._interactions, (time.monotonic() - began) * self._rate, side="right"))
                self._deployment.produce(self._records[self._produced : due], timeout_s=120.0)
                self._produced = max(self._produced, due)
                self.seconds = time.monotonic() - began
                self._stopped.wait(_TICK_S)
        except BaseException as error:  # noqa: BLE001 it is raised again where the traffic is stopped
            self._error = error


def _time(record: Record) -> float:
    """Of an interaction; what cannot be used, and a punctuation, have none."""
    try:
        return float(orjson.loads(record.value or b"")["timestamp"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return -math.inf


@dataclass(frozen=True)
class Span:
    """Something that an operator did. began, ended: unix seconds"""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


def pauses(embeddings: Mapping[int, Sequence[Any]], span: Span) -> list[float]:
    """The longest time without a new embedding in each partition of the topic that had begun within the span, seconds.

    embeddings: the records of the topic by partition
    """
    found = []
    for records in embeddings.values():
        times = np.sort([record.timestamp / 1000 for record in records])
        gaps = [
            after - before
            for before, after in itertools.pairwise(times)
            if span.began <= after and before <= span.ended
        ]
        found.append(float(max(gaps, default=0.0)))
    return found


def embeddings_of(deployment: Deployment) -> dict[int, list[Any]]:
    """All records of a deployment's topic of embeddings, by partition."""
    return records_of(deployment.servers, deployment.topology.topics.embeddings)


def spread(seconds: Sequence[float]) -> str:
    """Least, median and most, as in "1.2 / 1.4 / 2.0"."""
    return " / ".join(f"{value:.1f}" for value in (min(seconds), float(np.median(seconds)), max(seconds)))
