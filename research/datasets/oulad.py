"""Drop-out of students (OULAD): after a submission, will the student submit nothing more and withdraw?

A question is a student and a day with a submission; the student withdraws next if any submission of the day has the
label 1. Presentations of 2013 are for training, 2014B for validation, 2014J for test. What became of a course is read
here only for the time at which an answer becomes known, and enters no feature.

Scores arrive at marking, which the data give no time for: they are features of the submission, as if it were marked at
once. Whoever asks before marking must do without `score_div100`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from research.labels.task import LabelTask, label_task
from stream_tgat.datasets.folder import DatasetFolder, load_folder
from stream_tgat.errors import DataError
from stream_tgat.files import open_file, read_text_columns
from stream_tgat.graph.interactions import Interactions
from stream_tgat.training.log import LabelSet

DAY_S = 86_400.0
COHORTS = ("2013B", "2013J", "2014B", "2014J")
PART_OF_COHORT = np.array([0, 0, 1, 2], np.int8)
LABEL = "dropout"
CLIPPED = 5.0
"""Where the feature of lateness, in units of 30 days, stops."""
COHORT_COLUMNS = "code_presentation_"
"""Columns of the items that say which presentation one is of: a test item's has never been seen."""

Items = Literal["assessment", "slot"]


@dataclass(frozen=True, eq=False)
class Extra:
    """Of each submission, in the file's order.

    slot: int64, the same assessment over presentations   cohort: int64, place in COHORTS   course: int64, one a module
    and presentation   day: float64, of the presentation   unregistered: float64, its day of that, NaN where never
    due: float64, the assessment's day of the presentation, NaN where it has none or the submission was months away
    """

    slot: NDArray[np.int64]
    cohort: NDArray[np.int64]
    course: NDArray[np.int64]
    day: NDArray[np.float64]
    unregistered: NDArray[np.float64]
    due: NDArray[np.float64]


def load_oulad(folder: Path, items: Items = "assessment") -> LabelTask:
    """The task of a folder with the data. items: what a student meets, an assessment or its slot"""
    data = load_folder(folder)
    extra = _extra(folder / "extra.csv.gz", _days_late(folder))
    labels, parts = questions(data, extra)
    interactions, features = _graph(folder, data, extra, items)
    return label_task("oulad", interactions, features, {LABEL: labels}, {LABEL: parts})


def questions(data: DatasetFolder, extra: Extra) -> tuple[LabelSet, NDArray[np.int8]]:
    """One question per student and day that has a label, and the part of each.

    A positive is known when the student has unregistered, a negative at the next submission to the same course or at
    its last due date. Of several submissions of a day the last one asks.
    """
    interactions = data.interactions
    known = _known(interactions, data.label, extra)
    order = np.lexsort([np.arange(len(interactions)), interactions.time, interactions.source])
    student_day = np.column_stack([interactions.source, interactions.time])[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (student_day[1:] != student_day[:-1]).any(1)
    starts = np.flatnonzero(first)
    value = np.maximum.reduceat(data.label[order].astype(np.float64), starts)
    last = order[np.append(starts[1:], len(order)) - 1]
    positive = data.label[order] == 1
    # A day is a drop-out when one of its submissions is: known with that one. It is none when the last of them tells.
    when = np.where(positive | (data.label[order] == 0), known[order], -np.inf)
    when = np.where(
        value == 1,
        np.maximum.reduceat(np.where(positive, when, -np.inf), starts),
        np.maximum.reduceat(when, starts),
    )
    cohort = np.maximum.reduceat(extra.cohort[order], starts)
    asked = np.flatnonzero(value >= 0)
    asked = asked[np.argsort(last[asked], kind="stable")]
    labels = LabelSet(last[asked], value[asked], when[asked])
    return labels, PART_OF_COHORT[cohort[asked]]


def _known(interactions: Interactions, label: NDArray[np.int8], extra: Extra) -> NDArray[np.float64]:
    """When each submission's label becomes known: seconds [n]."""
    time = interactions.time
    group = interactions.source * (extra.course.max() + 1) + extra.course
    moments, place = np.unique(np.column_stack([group, time]), axis=0, return_inverse=True)
    later = np.full(len(moments), np.nan)
    goes_on = moments[1:, 0] == moments[:-1, 0]
    later[:-1][goes_on] = moments[1:, 1][goes_on]
    end = np.full(extra.course.max() + 1, -np.inf)
    due = ~np.isnan(extra.due)
    np.maximum.at(end, extra.course[due], (time + (extra.due - extra.day) * DAY_S)[due])
    negative = np.where(np.isnan(later[place]), np.maximum(end[extra.course], time), later[place])
    return np.where(label == 1, time + (extra.unregistered - extra.day) * DAY_S, negative)


def _graph(folder: Path, data: DatasetFolder, extra: Extra, items: Items) -> tuple[Interactions, NDArray[np.float32]]:
    """Interactions and node features without the columns of the presentation.

    A slot's features are those of its first assessment.
    """
    with np.load(folder / "node_features.npz", allow_pickle=False) as content:
        user, item = content["user"].astype(np.float32), content["item"].astype(np.float32)
        kept = [not str(name).startswith(COHORT_COLUMNS) for name in content["item_names"]]
    item, interactions = item[:, kept], data.interactions
    if items == "slot":
        slots, first = np.unique(extra.slot, return_index=True)
        of_slot = np.zeros((slots.max() + 1, item.shape[1]), np.float32)
        of_slot[slots] = item[interactions.destination[first] - len(user)]
        item = of_slot
        interactions = Interactions(interactions.source, extra.slot + len(user), interactions.time, interactions.edge)
    features = np.zeros((len(user) + len(item), user.shape[1] + item.shape[1]), np.float32)
    features[: len(user), : user.shape[1]] = user
    features[len(user) :, user.shape[1] :] = item
    return interactions, features


def _days_late(folder: Path) -> NDArray[np.float64]:
    """Days from the due date to each submission: [n], NaN where not known exactly."""
    with np.load(folder / "edge_features.npz", allow_pickle=False) as content:
        column = dict(zip(content["names"].tolist(), content["x"].T.astype(np.float64), strict=True))
    late, missing = column["days_after_due_div30_clip5"], column["due_date_missing"]
    return np.where((missing == 1) | (np.abs(late) >= CLIPPED), np.nan, 30 * late)


def _extra(file: Path, days_late: NDArray[np.float64]) -> Extra:
    with open_file(file) as opened:
        cells = read_text_columns(opened).cells
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    if len(rows) != len(days_late):
        raise DataError(f"{file} has {len(rows)} rows, the edge features {len(days_late)}; they must be equal")
    try:
        day = np.array([row["date_submitted"] for row in rows], np.float64)
        courses = [f"{row['code_module']} {row['code_presentation']}" for row in rows]
        return Extra(
            np.array([row["item_shared"] for row in rows], np.int64),
            np.array([COHORTS.index(row["code_presentation"]) for row in rows], np.int64),
            np.unique(courses, return_inverse=True)[1].astype(np.int64),
            day,
            np.array([row["date_unregistration"] or "nan" for row in rows], np.float64),
            day - days_late,
        )
    except (KeyError, ValueError) as problem:
        raise DataError(f"{file}: {problem}") from problem
