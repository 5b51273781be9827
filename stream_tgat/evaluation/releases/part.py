"""Which part of a log a release is measured on: by default all that is newer than what it learnt from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_tgat.errors import DataError
from stream_tgat.graph.splits import chronological_split
from stream_tgat.training.registry import Release

NEWEST_SHARE = 0.15
"""Of the interactions, where nothing says what a release learnt from."""


@dataclass(frozen=True)
class MeasuredPart:
    """The interactions of a log from a place on.

    first: place of the first one   begin, end: unix seconds, of the first and the last   count: how many
    unseen: True if training learnt nothing from them, None where that is not known   note: how they were chosen
    """

    first: int
    begin: float
    end: float
    count: int
    unseen: bool | None
    note: str


def measured_part(
    times: NDArray[np.float64], release: Release, since: float | None = None, at_most: int | None = None
) -> MeasuredPart:
    """Choose the part.

    times: [n] float64, never falling   since: unix seconds, to begin there whatever the release learnt from
    at_most: only the newest so many, and those of the same time as their first
    Raises DataError where nothing is left, and says what to do.
    """
    if len(times) == 0:
        raise DataError("There is nothing to measure: no usable interaction")
    learnt_until = release.card.learnt_until
    untrained = learnt_until is None and not release.card.manifest and not release.card.metrics
    unseen: bool | None = True
    if since is not None:
        first = int(np.searchsorted(times, since, "left"))
        unseen = True if untrained else None if learnt_until is None else since >= learnt_until
        note = "as asked for" if unseen else "as asked for; training may have learnt from them, which flatters"
    elif learnt_until is not None:
        first = int(np.searchsorted(times, learnt_until, "left"))
        note = "all that is newer than what the release learnt from"
    else:
        first = chronological_split(times, 1.0 - 2 * NEWEST_SHARE, NEWEST_SHARE).test.start
        if untrained:
            note = f"the newest {NEWEST_SHARE:.0%}; the release has learnt nothing"
        else:
            unseen = None
            note = (
                f"the newest {NEWEST_SHARE:.0%}; the card does not say until when the release learnt, so it may have "
                "learnt from them, which flatters"
            )
    if first >= len(times):
        raise DataError(
            f"Nothing here is new to release {release.name}: all {len(times):,} interactions are older than what it "
            "learnt from, or than --since. Send newer ones, or measure on what it knows with an earlier --since"
        )
    if at_most is not None and len(times) - first > at_most:
        first = int(np.searchsorted(times, times[len(times) - at_most], "left"))
        note += f", of these the newest {len(times) - first:,}"
    return MeasuredPart(first, float(times[first]), float(times[-1]), len(times) - first, unseen, note)
