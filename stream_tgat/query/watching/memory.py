"""What the service has seen go by: alerts and what became of them, moments of nodes, speed, the newest report."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_tgat.client import Alert, Embedding
from stream_tgat.query.watching.alert_log import AlertLog
from stream_tgat.query.watching.flow import Flow
from stream_tgat.query.watching.moments import Name, Remembered, RememberedMoment
from stream_tgat.topology import Kind, Topology
from stream_tgat.wire import DecodedLabel, QualityReport

#: What happens between two messages to the page; what is more is counted.
_NEW: Final = 200


@dataclass(frozen=True)
class EmbeddedMeeting:
    """An interaction that was embedded. time: unix seconds"""

    user: str
    item: str
    time: float


@dataclass(frozen=True)
class News:
    """What came since the last look. left_out: interactions that were too many to tell"""

    interactions: list[EmbeddedMeeting]
    left_out: int
    alerts: list[Alert]
    report: QualityReport | None


class Memory:
    """Written by the thread that reads the topics, read by those that answer."""

    def __init__(self, topology: Topology) -> None:
        self._heads = topology.head_names
        self._bipartite = topology.graph.bipartite
        self.remembered = Remembered(self._heads)
        self.alerts = AlertLog(topology, lambda user, time: self.remembered.next_time(("user", user), time))
        self.flow = Flow()
        self.report: QualityReport | None = None
        self.embeddings = 0
        self.model: int | None = None
        self.event_time: float | None = None
        self._lock = threading.Lock()
        self._met: deque[EmbeddedMeeting] = deque(maxlen=_NEW)
        self._met_count = 0
        self._raised: deque[Alert] = deque(maxlen=_NEW)
        self._report_is_new = False

    def name(self, kind: Kind, node_id: str) -> Name:
        """A node's name here: where ids are shared, either kind means the same node."""
        return (kind if self._bipartite else "user", node_id)

    def embedded(self, each: Embedding, side: Kind, vector: NDArray[np.float32], written: float) -> None:
        """An embedding was written at a time (unix seconds). side: of the interaction   vector: f4[D]"""
        said = _in_order(self._heads, each.predictions)
        moment = RememberedMoment(each.interaction, each.peer, each.timestamp, said, vector, each.model, each.late)
        self.remembered.put(self.name(side, each.node), moment)
        self.embeddings += 1
        self.model = each.model if self.model is None else max(self.model, each.model)
        self.event_time = max(each.timestamp, self.event_time or each.timestamp)
        if side == "user":
            self.flow.embedded(each.interaction, written)
            with self._lock:
                self._met.append(EmbeddedMeeting(each.node, each.peer, each.timestamp))
                self._met_count += 1

    def written(self, interaction: str, at: float) -> None:
        """An interaction was written at a time (unix seconds)."""
        self.flow.written(interaction, at)

    def raised(self, alert: Alert) -> None:
        """An alert came."""
        self.alerts.raise_(alert)
        with self._lock:
            self._raised.append(alert)

    def turned_out(self, user: str, label: DecodedLabel) -> None:
        """A label came."""
        self.alerts.turned_out(user, label.label, label.value, label.timestamp, label.known)

    def reported(self, report: QualityReport) -> None:
        """A report on the quality came."""
        with self._lock:
            self.report, self._report_is_new = report, True

    def news(self) -> News:
        """What came since this was last asked."""
        with self._lock:
            news = News(
                list(self._met),
                self._met_count - len(self._met),
                list(self._raised),
                self.report if self._report_is_new else None,
            )
            self._met.clear()
            self._raised.clear()
            self._met_count, self._report_is_new = 0, False
        return news


def _in_order(heads: tuple[str, ...], said: Mapping[str, float]) -> NDArray[np.float32]:
    return np.array([said.get(name, np.nan) for name in heads], np.float32)
