"""Drop-out: one question per student and day, each answer at its own time, cohorts as counted."""

import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from research.datasets.oulad import DAY_S, load_oulad
from research.labels import QuestionPart

SHARED = Path(os.environ.get("DATASETS_DIR", Path(__file__).resolve().parents[5] / "shared" / "datasets"))
OULAD = SHARED / "oulad"
EDGE = ["score_div100", "days_after_due_div30_clip5", "due_date_missing"]

ROWS = [
    # user, item, day since the first one, label, slot, presentation, day of the presentation, unregistered, days late
    (0, 0, 10, 0, 0, "2013B", 10, "", -2),  # due on day 12; the next submission is on day 40
    (0, 1, 40, 0, 1, "2013B", 40, "", -10),  # nothing follows; the course ends with the last due date, day 50
    (1, 0, 40, 0, 0, "2013B", 40, "55.0", 28),
    (1, 1, 40, 1, 1, "2013B", 40, "55.0", -10),  # the same day: one question, and the answer is yes on day 55
    (2, 1, 41, -1, 1, "2013B", 41, "", -9),  # no label, no question
    (3, 2, 200, 0, 0, "2014J", 10, "", 0),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"bipartite": True}))
    with gzip.open(tmp_path / "events.csv.gz", "wt") as file:
        file.write("user,item,timestamp,label\n")
        file.writelines(f"{user},{item},{day * DAY_S},{label}\n" for user, item, day, label, *_ in ROWS)
    with gzip.open(tmp_path / "extra.csv.gz", "wt", newline="") as file:
        out = csv.writer(file)
        names = ("item_shared", "code_module", "code_presentation", "date_submitted", "date_unregistration")
        out.writerow([*names, "final_result"])
        out.writerows([slot, "AAA", when, day, gone, "Pass"] for *_, slot, when, day, gone, _ in ROWS)
    edge = np.array([[0.5, late / 30, 0.0] for *_, late in ROWS], np.float32)
    np.savez(tmp_path / "edge_features.npz", x=edge, names=EDGE)
    names = ["code_module_AAA", "code_presentation_2013B", "weight_div100"]
    item = np.array([[1, 1, 0.1], [1, 1, 0.2], [1, 0, 0.3]], np.float32)
    np.savez(tmp_path / "node_features.npz", user=np.ones((4, 2)), item=item, user_names=["a", "b"], item_names=names)
    return tmp_path


def test_answers_come_at_unregistration_at_the_next_submission_or_at_the_end(folder):
    task = load_oulad(folder)
    (target,) = task.targets
    assert_array_equal(task.interactions.time[target.labels.event] / DAY_S, [10, 40, 40, 200])
    assert_array_equal(task.interactions.source[target.labels.event], [0, 0, 1, 3])
    assert_array_equal(target.labels.value, [0, 0, 1, 0])
    assert_array_equal(np.round(target.labels.known / DAY_S, 3), [40, 50, 55, 200])
    assert_array_equal(target.train, [0, 1, 2])
    assert_array_equal(target.test, [3])


def test_no_feature_says_the_presentation_or_the_result(folder):
    features = load_oulad(folder).node_features
    assert_array_equal(features[4:, 2:], np.array([[1, 0.1], [1, 0.2], [1, 0.3]], np.float32))


def test_slots_merge_assessments_and_have_the_features_of_the_first(folder):
    task = load_oulad(folder, "slot")
    assert_array_equal(task.interactions.destination, [4, 5, 4, 5, 5, 4])
    assert_array_equal(task.node_features[4:, 2:], np.array([[1, 0.1], [1, 0.2]], np.float32))


@pytest.mark.slow
def test_split_of_the_real_data_has_the_counted_sizes():
    """Counted by hand from the files: student-days with a label, by presentation; known by the first day of 2014J."""
    if not OULAD.is_dir():
        pytest.skip(f"no data set oulad in {SHARED}")
    task = load_oulad(OULAD)
    (target,) = task.targets
    sizes = {part: (len(target.part(part)), int(target.labels.value[target.part(part)].sum())) for part in QuestionPart}
    assert sizes == {
        QuestionPart.TRAIN: (76_140, 1_648),
        QuestionPart.VALIDATION: (35_270, 1_142),
        QuestionPart.TEST: (48_185, 1_472),
    }
    assert len(target.labels) == 160_340
    assert task.cutoff == 609 * DAY_S
    assert task.interactions.edge.shape[1] == 10
