"""What a method of link prediction is, for evaluation: something that learns from a task and then scores pairs."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_tgat.evaluation.link_prediction.task import LinkTask


class LinkScorer(Protocol):
    """Says how likely pairs are at a time, from what is strictly earlier."""

    def scores(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], times: NDArray[np.float64]
    ) -> NDArray[np.floating]:
        """Scores of C candidates for each source; higher means more likely, any scale, finite.

        sources: [B] int64   destinations: [B, C] int64   times: [B] float64, never falling, within a batch and from one
        call to the next, so that a scorer with a state may read the log up to each time
        Returns [B, C] floating. A score does not depend on the other candidates nor on the other rows.
        """
        ...


class LinkMethod(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str:
        """As the table calls it."""
        ...

    def fit(self, task: LinkTask, seed: int) -> LinkScorer:
        """Learn from `task.learnt`; validation may be used to stop and to choose, and nothing may be learnt from test.

        The scorer may look up all of `task.interactions` that is strictly earlier than the time it is asked about.
        The same task and seed give the same scores.
        """
        ...
