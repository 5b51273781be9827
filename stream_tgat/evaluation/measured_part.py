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
    untrained = release.card.is_untrained
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
        measured = release.card.measured
        raise DataError(
            f"Nothing here is new to release {release.name}: all {len(times):,} interactions are older than what it "
            "learnt from, or than --since. Send newer ones, or measure on what it knows with an earlier --since"
            + (f"; before it learnt from the newest part, it was measured there as {measured}" if measured else "")
        )
    if at_most is not None and len(times) - first > at_most:
        first = int(np.searchsorted(times, times[len(times) - at_most], "left"))
        note += f", of these the newest {len(times) - first:,}"
    return MeasuredPart(first, float(times[first]), float(times[-1]), len(times) - first, unseen, note)


def part_for_both(
    times: NDArray[np.float64], learnt_until: float, serving: Release | None, fewest: int
) -> MeasuredPart:
    """The interactions on which a new model and the one that serves are compared: those that neither has learnt from.

    Where they are fewer than `fewest`, all that the new model has not learnt from: what the other has learnt of them
    speaks for it alone, so a new model that is as good even then may be trusted.

    times: [n] float64, never falling   learnt_until: of the new model, unix seconds
    serving: None where none serves, or where it cannot be measured
    Raises DataError where the new model has learnt from everything.
    """
    first = int(np.searchsorted(times, learnt_until, "left"))
    if first >= len(times):
        raise DataError(
            "Nothing is left to compare models on: no interaction is newer than what was learnt from. "
            "Raise retrain.held_out in the topology, or retrain when there is more"
        )
    unseen: bool | None = True
    note = "all that is newer than what the new model has learnt from"
    if serving is not None and not serving.card.is_untrained:
        theirs = serving.card.learnt_until
        if theirs is None:
            unseen = None
            note += f"; {serving.name} does not say until when it learnt, so it may know them, which flatters it"
        else:
            later = max(first, int(np.searchsorted(times, theirs, "left")))
            new = len(times) - later
            if later == first:
                note = "all that is newer than what either model has learnt from"
            elif new >= fewest:
                first, note = later, "all that is newer than what either model has learnt from"
            else:
                unseen = False
                note += (
                    f"; only {new:,} of them are new to {serving.name} too, fewer than {fewest:,}, so part of them it "
                    "has learnt from, which flatters it"
                )
    return MeasuredPart(first, float(times[first]), float(times[-1]), len(times) - first, unseen, note)
