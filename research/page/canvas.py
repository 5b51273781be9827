"""How figures look, and how they are written: the same bytes from the same numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from research.baselines.optional import matplotlib

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#8a5a9e", "#8c8c8c"

STYLE = {
    "svg.hashsalt": "stream-tgat",  # ids in the file come from this, not from chance
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # matplotlib's own
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def panels(
    file: Path, rows: int, columns: int, width: float, height: float, *, one_y: bool = False
) -> Iterator[list[Any]]:
    """Axes, row by row, of a figure that is written when they are drawn.

    width, height: inches   one_y: they share the vertical axis
    """
    library = matplotlib()
    with library.rc_context(STYLE):
        canvas = library.figure.Figure(figsize=(width, height))
        axes = canvas.subplots(rows, columns, squeeze=False, sharey=one_y)
        yield list(axes.ravel())
        file.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
