"""The newest alerts, and whether they came true: alerts joined with the labels that came later.

The join is training's and monitoring's: a label judges the user's last interaction not after the label's time, and of
several labels of one interaction the largest value counts. Written by one thread, read by others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from stream_tgat.client import Alert
from stream_tgat.topology import Topology

MOST_ALERTS: Final = 2_000
MOST_LABELS: Final = 200_000


@dataclass(frozen=True)
class Judged:
    """An alert, and what turned out. came_true: None while no label says   known_at: when it was known, unix seconds"""

    alert: Alert
    came_true: bool | None
    known_at: float | None


class AlertLog:
    """Alerts of one deployment, newest first."""

    def __init__(self, topology: Topology, next_time: Callable[[str, float], float]) -> None:
        """next_time: when a user interacted next after a time (unix seconds), infinity for not yet"""
        self._label_of = {head.name: head.label_name for head in topology.heads}
        self._next_time = next_time
        self._lock = threading.Lock()
        self._alerts: deque[Alert] = deque(maxlen=MOST_ALERTS)
        # Of a user's question (user, label, the time that it speaks of): the largest value, and when it was known.
        self._labels: dict[tuple[str, str], OrderedDict[float, tuple[float, float]]] = {}
        self._order: deque[tuple[str, str, float]] = deque()
        self.raised = 0

    def raise_(self, alert: Alert) -> None:
        """An alert was raised."""
        with self._lock:
            self._alerts.append(alert)
            self.raised += 1

    def turned_out(self, user: str, label: str, value: float, time: float, known: float) -> None:
        """A label says so of a user at a time (unix seconds)."""
        with self._lock:
            said = self._labels.setdefault((user, label), OrderedDict())
            before = said.get(time)
            if before is None:
                self._order.append((user, label, time))
                if len(self._order) > MOST_LABELS:
                    self._forget_oldest()
            if before is None or value > before[0]:
                said[time] = (value, known)

    def newest(
        self, limit: int, user: str | None = None, head: str | None = None, came_true: bool | None = None
    ) -> list[Judged]:
        """Up to `limit` alerts, by their time, newest first.

        Those of one user, of one head, or that turned out so, if given. Alerts of the past come partition by partition.
        """
        with self._lock:
            wanted = (
                self._judged(each)
                for each in sorted(self._alerts, key=lambda alert: alert.timestamp)[::-1]
                if (user is None or each.node == user) and (head is None or each.head == head)
            )
            told = (each for each in wanted if came_true is None or each.came_true == came_true)
            return list(islice(told, limit))

    def _judged(self, alert: Alert) -> Judged:
        said = self._labels.get((alert.node, self._label_of.get(alert.head, alert.head)))
        if not said:
            return Judged(alert, None, None)
        until = self._next_time(alert.node, alert.timestamp)
        found = [each for time, each in said.items() if alert.timestamp <= time < until]
        if not found:
            return Judged(alert, None, None)
        value, known = max(found)
        return Judged(alert, bool(value), known)

    def _forget_oldest(self) -> None:
        user, label, time = self._order.popleft()
        said = self._labels.get((user, label))
        if said is not None:
            said.pop(time, None)
            if not said:
                del self._labels[user, label]
