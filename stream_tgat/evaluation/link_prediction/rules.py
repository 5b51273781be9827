"""Rules without a parameter to learn: a model that does not beat them has learnt nothing worth its cost."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.link_prediction import LinkScorer, LinkTask
from stream_tgat.evaluation.link_prediction.meetings import Meetings
from stream_tgat.graph.adjacency import TemporalAdjacency

WINDOW_SHARE = 0.15
"""EdgeBank's window spans the newest such share of the training interactions, as in TGB."""


@dataclass(frozen=True)
class EdgeBank:
    """EdgeBank (Poursafaei et al., 2022): yes, if the source has met the destination in these roles before.

    windowed: only within a time window of fixed length, up to now
    The memory is that of all that is strictly earlier; the authors' stands still for a batch.
    """

    windowed: bool = False

    @property
    def name(self) -> str:
        """As tables have it."""
        return "EdgeBank (time window)" if self.windowed else "EdgeBank (unlimited)"

    def fit(self, task: LinkTask, seed: int) -> LinkScorer:  # noqa: ARG002  # nothing is random
        """Take the window from training."""
        window = np.inf
        if self.windowed and len(task.learnt):
            window = task.learnt.time[-1] - np.quantile(task.learnt.time, 1 - WINDOW_SHARE)
        return _Bank(Meetings(task.interactions, directed=True), window)


@dataclass(frozen=True)
class DestinationRecency:
    """The later a destination was last in any interaction, the likelier."""

    name: str = "Destination recency"

    def fit(self, task: LinkTask, seed: int) -> LinkScorer:  # noqa: ARG002  # nothing is random
        """Nothing is learnt."""
        return _Recency(TemporalAdjacency(task.interactions, task.node_count), None)


@dataclass(frozen=True)
class PairRecency:
    """The later the two last met, the likelier; those who never met come after, by the destination's recency."""

    name: str = "Pair recency, then destination recency"

    def fit(self, task: LinkTask, seed: int) -> LinkScorer:  # noqa: ARG002  # nothing is random
        """Nothing is learnt."""
        return _Recency(TemporalAdjacency(task.interactions, task.node_count), Meetings(task.interactions))


class _Bank:
    def __init__(self, meetings: Meetings, window: float) -> None:
        self._meetings = meetings
        self._window = window

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """1 for yes, 0 for no: [B, C]."""
        count, last = self._meetings.before(sources[:, None], destinations, times[:, None])
        return ((count > 0) & (times[:, None] - last <= self._window)).astype(np.float64)


class _Recency:
    def __init__(self, history: TemporalAdjacency, meetings: Meetings | None) -> None:
        self._history = history
        self._meetings = meetings

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """1 / (1 + seconds since), 0 for never; one more for those who met: [B, C]."""
        now = np.broadcast_to(times[:, None], destinations.shape)
        _, last, _ = self._history.looked_back(destinations.ravel(), now.ravel())
        score = _nearness(now - last.reshape(destinations.shape))
        if self._meetings is None:
            return score
        count, met = self._meetings.before(sources[:, None], destinations, now)
        return np.where(count > 0, 1 + _nearness(now - met), score)


def _nearness(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(seconds), 0.0, 1 / (1 + np.nan_to_num(seconds)))
