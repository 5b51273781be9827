"""Which part of a log a model learns from: a stretch of event time, a number of interactions, or both.

Offsets are no times: partitions advance each at its own pace, and late events come behind. So records are read between
offsets, and then cut by their own time. A cut never parts interactions of one time, so that one number says it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Window:
    """The newest part of a log; None and −inf do not limit it.

    seconds: of event time, back from the newest interaction   interactions: the newest so many, and those of the time
    of their first   since: unix seconds of event time
    """

    seconds: float | None = None
    interactions: int | None = None
    since: float = float("-inf")

    @property
    def is_limited(self) -> bool:
        """Whether there is anything that it can leave out."""
        return self != WHOLE_LOG

    def begin(self, times: NDArray[np.float64]) -> float:
        """Unix seconds of event time from which on interactions are in it; −inf where none is left out for certain.

        times: [n] float64, in any order
        """
        begin = self.since
        if len(times) and self.seconds is not None:
            begin = max(begin, float(times.max()) - self.seconds)
        if self.interactions is not None and len(times) > self.interactions:
            place = len(times) - self.interactions
            begin = max(begin, float(np.partition(times, place)[place]))
        return begin


WHOLE_LOG = Window()
