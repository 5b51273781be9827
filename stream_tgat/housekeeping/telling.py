"""What a worker tells in its log while it works: rates in words, and when it has caught up or falls behind."""

from dataclasses import dataclass
from typing import Final

from stream_tgat.agents.metrics import Metrics
from stream_tgat.durations import in_words
from stream_tgat.transport.client import Lag
from stream_tgat.wire.packets import Source, SourceTopic

#: Counters that are told when they have grown, and what they count.
_ALSO: Final = {
    "alerts": "alerts",
    "nodes": "node features",
    "dead_letters": "to the dead letters",
    "unknown_labels": "unknown labels",
    "arrived_behind": "late",
    "forced": "without all peer embeddings",
    "repeats": "repeated",
    "duplicates": "sent again",
    "fenced": "batches given up",
}
#: Caught up is who has processed everything, or all but what came within this time.
CAUGHT_UP_S: Final = 2.0


def how_far(place: str, lag: Lag) -> str:
    """Words for what is behind, and by how much. place: a partition, or `computing`"""
    return f"{in_words(lag.seconds)} behind at {place}, with {lag.records:,} to go"


class Rates:
    """What has happened since the last look, in one line."""

    def __init__(self, now: float) -> None:
        """now: monotonic seconds; nothing is counted yet"""
        self._before: dict[str, int] = {}
        self._buckets: list[tuple[str, int]] = []
        self._looked_at = now

    def look(self, now: float, metrics: Metrics) -> str | None:
        """The line; None where nothing has happened. now: monotonic seconds"""
        seconds, self._looked_at = now - self._looked_at, now
        found = {name: getattr(metrics, name) for name in ("interactions", "embeddings", *_ALSO)}
        buckets = list(metrics.event_to_embedding.buckets())
        grown = {name: count - self._before.get(name, 0) for name, count in found.items()}
        latency = _latency(self._buckets, buckets)
        self._before, self._buckets = found, buckets
        if not any(grown.values()):
            return None
        parts = [f"{grown[name] / seconds:,.0f} {name}/s" for name in ("interactions", "embeddings")]
        parts += [latency] if latency else []
        parts += [f"{grown[name]:,} {what}" for name, what in _ALSO.items() if grown[name]]
        if grown["arrived_behind"]:
            late = sorted(metrics.behind_by_source.items())
            parts.append(
                "late in all: "
                + ", ".join(f"{count:,} of {Source(SourceTopic.INTERACTIONS, each)}" for each, count in late)
            )
        parts += [f"{metrics.pending:,} rows wait"] if metrics.pending else []
        return f"In the last {in_words(seconds)}: {', '.join(parts)}"


def _latency(before: list[tuple[str, int]], now: list[tuple[str, int]]) -> str:
    """Within which bucket's bound half of what was added lies, and 99 of 100."""
    added = [(bound, count - (before[at][1] if before else 0)) for at, (bound, count) in enumerate(now)]
    total = added[-1][1]
    if not total:
        return ""
    half, most = (next(bound for bound, count in added if count >= share * total) for share in (0.5, 0.99))
    return f"half of them within {_bound(half)} and 99 % within {_bound(most)}"


def _bound(bound: str) -> str:
    return "more than 10 min" if bound == "+Inf" else in_words(float(bound))


@dataclass
class CatchingUp:
    """Notices when a worker has caught up after it has begun, and when it falls behind and comes back.

    limit_s: so far behind is not ready
    """

    limit_s: float
    _is_behind: bool = True
    _since: float | None = None

    def look(self, now: float, worst: tuple[str, Lag] | None) -> tuple[bool, str] | None:
        """A line where something has changed, and whether it is a warning.

        now: monotonic seconds   worst: what is furthest behind; None while that is not known
        """
        if worst is None:
            # A rebalance: who has caught up before says so again afterwards.
            self._is_behind, self._since = True, None
            return None
        self._since = now if self._since is None else self._since
        place, lag = worst
        if self._is_behind and lag.seconds <= CAUGHT_UP_S:
            self._is_behind = False
            return False, f"Caught up after {in_words(now - self._since)}"
        if not self._is_behind and lag.seconds > self.limit_s:
            self._is_behind, self._since = True, now
            return True, f"Fallen behind: {how_far(place, lag)}"
        return None
