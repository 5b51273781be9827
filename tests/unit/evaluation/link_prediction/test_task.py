"""The split, who is hidden and who is unseen: exact, and the published counts on the paper's own graph."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from stream_tgat.datasets.folder import load_folder
from stream_tgat.errors import DataError
from stream_tgat.evaluation.link_prediction import Group, LinkTask, Part, link_task
from stream_tgat.graph.interactions import Interactions
from stream_tgat.graph.splits import Split

SHARED = Path(os.environ.get("DATASETS_DIR", Path(__file__).resolve().parents[5] / "shared" / "datasets"))
WIKIPEDIA = SHARED / "wikipedia"


def small_task():
    """Ten interactions, 6/2/2; node 2 is hidden, 3 and 13 come late."""
    interactions = Interactions.in_time_order(
        [0, 1, 2, 0, 1, 0, 2, 0, 3, 3], [10, 11, 10, 10, 12, 11, 10, 12, 10, 13], np.arange(10.0)
    )
    hidden = np.zeros(14, np.bool_)
    hidden[2] = True
    return LinkTask("small", interactions, Split(slice(0, 6), slice(6, 8), slice(8, 10)), hidden)


def test_training_lacks_every_interaction_of_a_hidden_node_and_keeps_its_last_row():
    task = small_task()
    assert_array_equal(task.train, [0, 1, 3, 4, 5])
    assert_array_equal(task.learnt.time, [0, 1, 3, 4, 5])
    assert_array_equal(np.flatnonzero(task.seen), [0, 1, 10, 11, 12])


def test_groups_part_by_who_is_unseen():
    task = small_task()
    events = np.arange(6, 10)
    assert_array_equal(task.in_group(events, Group.ALL), [True] * 4)
    assert_array_equal(task.in_group(events, Group.SEEN), [False, True, False, False])
    assert_array_equal(task.in_group(events, Group.UNSEEN), [True, False, True, True])
    assert_array_equal(task.in_group(events, Group.BOTH_UNSEEN), [False, False, False, True])


def test_parts_follow_each_other_without_a_gap():
    task = small_task()
    assert_array_equal(task.events(Part.VALIDATION), [6, 7])
    assert_array_equal(task.events(Part.TEST), [8, 9])


def test_arrays_that_do_not_fit_are_refused():
    task = small_task()
    with pytest.raises(DataError, match="hidden has 3 nodes of 14"):
        LinkTask("small", task.interactions, task.split, np.zeros(3, np.bool_))
    with pytest.raises(DataError, match="4 rows of node features"):
        LinkTask("small", task.interactions, task.split, task.hidden, np.zeros((4, 1), np.float32))


def test_nodes_that_only_have_features_are_in_the_task():
    interactions = Interactions.in_time_order(np.arange(20) % 3, np.full(20, 5), np.arange(20.0))
    task = link_task("features", interactions, np.zeros((9, 2), np.float32))
    assert task.node_count == 9
    assert not task.seen[6:].any()


def test_wikipedia_has_the_published_counts():
    """As TGN's code prints them: 81,029 train, 23,621 each, 12,016 and 11,715 with a new node."""
    if not WIKIPEDIA.is_dir():
        pytest.skip(f"no data set in {WIKIPEDIA}")
    task = link_task("wikipedia", load_folder(WIKIPEDIA).interactions)
    validation, test = task.events(Part.VALIDATION), task.events(Part.TEST)
    assert (len(task.train), len(validation), len(test)) == (81_029, 23_621, 23_621)
    assert task.hidden.sum() == 922
    assert task.in_group(validation, Group.UNSEEN).sum() == 12_016
    assert task.in_group(test, Group.UNSEEN).sum() == 11_715
