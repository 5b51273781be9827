"""Draws whether probabilities mean what they say."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from stream_tgat.errors import DataError
from stream_tgat.training.reliability import Reliability


def require_plots() -> None:
    """DataError that says how to get what draws, where it is missing: before anything long is begun."""
    if find_spec("matplotlib") is None:
        raise DataError("Plots need matplotlib, which is not installed: pip install 'stream-tgat[plots]'")


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
