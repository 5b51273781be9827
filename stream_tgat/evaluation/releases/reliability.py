"""Whether probabilities mean what they say: of all answers of 30 %, do 30 % come true?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from stream_tgat.errors import DataError

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Answers in bins of about equal size, by probability. One entry a bin, the lowest first.

    count: answers   predicted: mean probability   observed: share that came true
    """

    count: tuple[int, ...]
    predicted: tuple[float, ...]
    observed: tuple[float, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of predicted and observed, by answers; NaN without any."""
        if not self.count:
            return float("nan")
        distance = np.abs(np.array(self.predicted) - np.array(self.observed))
        return float(np.average(distance, weights=self.count))


def reliability(truth: ArrayLike, probability: ArrayLike, bins: int = BINS) -> Reliability:
    """Bins between quantiles: with rare outcomes nearly all probabilities are small, and equal widths show one bin.

    truth: [n] 0 or 1   probability: [n]; equal ones share a bin, so that there may be fewer
    """
    y, p = np.asarray(truth, np.float64), np.asarray(probability, np.float64)
    if len(p) == 0:
        return Reliability((), (), ())
    edges = np.quantile(p, np.arange(1, bins) / bins)
    place = np.searchsorted(edges, p)
    count = np.bincount(place)
    some = count > 0
    predicted, observed = (np.bincount(place, each)[some] / count[some] for each in (p, y))
    return Reliability(tuple(count[some].tolist()), tuple(predicted.tolist()), tuple(observed.tolist()))


def require_plots() -> None:
    """DataError that says how to get what draws, where it is missing: before anything long is begun."""
    if find_spec("matplotlib") is None:
        raise DataError("Plots need matplotlib, which is not installed: pip install 'stream-tgat[evaluation]'")


def draw_reliability(name: str, found: Reliability, probability: Sequence[float], folder: Path) -> Path:
    """Draw a head's reliability as `reliability-NAME.svg` in a folder, and the probabilities' distribution below it."""
    require_plots()
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from sklearn.calibration import CalibrationDisplay

    # The same answers give the same file: no date, and ids that are not random.
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure = Figure(figsize=(4.5, 5.5), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
        display = CalibrationDisplay(np.array(found.observed), np.array(found.predicted), np.array(probability))
        display.plot(ax=above, name=name)
        above.set(
            title=f"{name}: expected calibration error {found.error:.3f}", xlabel="", ylabel="share that came true"
        )
        below.hist(probability, bins=40, range=(0.0, 1.0))
        below.set(xlabel="probability", ylabel="answers")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"reliability-{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.svg"
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file
