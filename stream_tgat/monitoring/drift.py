"""Drift: has a distribution moved since the serving model began?

ADWIN (Bifet and Gavaldà, 2007, from the library river) finds when the mean of a series changes, without a threshold on
its size; then the mean since that moment is held against a fixed reference, the first values under the serving model.
Small differences are no drift however sure they are, and a series that comes back has none any more.

Limits. Only the mean is watched, of blocks of values; a rhythm that is slower than the reference is long, such as that
of the day, counts as drift; of a long vector or a large category the first columns stand for all.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_tgat.features import FeatureEncoder

BLOCK: Final = 32
"""Values whose mean is one value of the series: near to a normal distribution whatever that of one is."""
REFERENCE: Final = 64
"""Blocks that the reference is made of."""
LEAST_EFFECT: Final = 0.2
"""Difference of means that is worth a notice, in standard deviations of one value."""
CONFIDENCE: Final = 0.002
"""Chance of a false notice that ADWIN is allowed, over all series together."""
COLUMNS: Final = 64
_SPREADS: Final = 4.0
_TINY: Final = 1e-9


class Notice(NamedTuple):
    """A series that has moved. since: event time at which it was noticed   reference, present: means"""

    name: str
    since: float
    reference: float
    present: float


class Drift:
    """Watches C series, side by side."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: of the series, [C]"""
        self.names = tuple(names)
        self.restart()

    def restart(self) -> None:
        """Forget everything: what comes next is the reference."""
        count = len(self.names)
        self._rest: NDArray[np.float64] = np.zeros((0, count))
        self._means: list[NDArray[np.float64]] = []
        self._squares = np.zeros(count)
        self._series: list[_Series] = []

    def add(self, time: float, values: NDArray[np.floating[Any]]) -> None:
        """More values: [n, C], those of a row together. time: event time of the last, in unix seconds"""
        if not self.names:
            return
        rows = np.concatenate([self._rest, values])
        blocks = len(rows) // BLOCK
        self._rest = rows[blocks * BLOCK :]
        for block in rows[: blocks * BLOCK].reshape(blocks, BLOCK, len(self.names)):
            mean = block.mean(0)
            if self._series:
                for series, value in zip(self._series, mean.tolist(), strict=True):
                    series.add(time, value)
            else:
                self._means.append(mean)
                self._squares += (block**2).mean(0)
                if len(self._means) == REFERENCE:
                    self._begin(time)

    def notices(self) -> list[Notice]:
        """What has moved, in the order of names."""
        return [
            Notice(name, series.since, series.reference, series.present)
            for name, series in zip(self.names, self._series, strict=False)  # no series before there is a reference
            if series.since is not None
        ]

    def _begin(self, time: float) -> None:
        means = np.array(self._means)
        centre, of_means = means.mean(0), means.std(0)
        of_values = np.sqrt(np.maximum(self._squares / len(means) - centre**2, 0.0))
        make = _detectors(len(self.names))
        self._series = [_Series(make(), *each) for each in np.stack([centre, of_means, of_values], 1).tolist()]
        for mean in self._means:
            for series, value in zip(self._series, mean.tolist(), strict=True):
                series.add(time, value)
        self._means = []


class _Series:
    """One series against its reference."""

    def __init__(self, detector: Any, reference: float, of_means: float, of_values: float) -> None:
        """of_means, of_values: standard deviation of the reference's blocks, and of its single values"""
        self.reference = reference
        self._detector = detector
        if of_values == 0.0:
            # It never moved, so how far it is likely to is not known; a flag that one of so many had raised would say:
            of_values = (REFERENCE * BLOCK) ** -0.5
            of_means = of_values * BLOCK**-0.5
        self._scale = max(of_means, _TINY)
        self._least = LEAST_EFFECT * of_values
        self._newest: deque[float] = deque(maxlen=REFERENCE)
        self._changed: float | None = None

    @property
    def present(self) -> float:
        """Mean of the newest blocks, since the last change."""
        return sum(self._newest) / len(self._newest)

    @property
    def since(self) -> float | None:
        """Event time of the change that has led away from the reference; None where it is where it was."""
        if self._changed is None or abs(self.present - self.reference) < self._least:
            return None
        return self._changed

    def add(self, time: float, value: float) -> None:
        """The mean of one more block."""
        before = self.since
        self._newest.append(value)
        # ADWIN's bound is one for values in [0, 1].
        spreads = max(-_SPREADS, min(_SPREADS, (value - self.reference) / self._scale))
        self._detector.update(0.5 + spreads / (2 * _SPREADS))
        if self._detector.drift_detected:
            while len(self._newest) > self._detector.width:
                self._newest.popleft()
            if before is None:
                self._changed = time


def watched_columns(encoder: FeatureEncoder) -> tuple[list[int], list[str]]:
    """Which columns of the edge vector are watched, and their names: the first 64 of each feature."""
    columns: list[int] = []
    start = 0
    for feature in encoder.features:
        columns += range(start, start + min(feature.width, COLUMNS))
        start += feature.width
    names = encoder.column_names
    return columns, [names[column] for column in columns]


def _detectors(count: int) -> Callable[[], Any]:
    # Here and not above: river takes a second to import, and with few records nothing is watched yet.
    from river.drift import ADWIN

    return lambda: ADWIN(delta=CONFIDENCE / count, clock=1)
