"""Data sets of a folder: numbering, labels, features, and errors that name the file."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from stream_tgat.datasets.folder import check_folder, load_folder
from stream_tgat.errors import DataError

SHARED = Path(os.environ.get("DATASETS_DIR", Path(__file__).resolve().parents[4] / "shared" / "datasets"))


def write(folder, events, bipartite=True, edge=None):
    (folder / "meta.json").write_text(json.dumps({"bipartite": bipartite}))
    with gzip.open(folder / "events.csv.gz", "wt") as file:
        file.write(events)
    if edge is not None:
        np.savez(folder / "edge_features.npz", x=edge)
    return folder


HEADER = "user,item,timestamp,label\n"
EVENTS = "user,item,timestamp,label\n0,1,5,-1\n2,0,3,1\n1,1,9.5,0\n"


def test_items_follow_the_users_and_rows_the_time(tmp_path):
    data = load_folder(write(tmp_path, EVENTS, edge=np.array([[1.0], [2.0], [3.0]])))
    assert_array_equal(data.interactions.source, [2, 0, 1])
    assert_array_equal(data.interactions.destination, [3, 4, 4])
    assert_array_equal(data.interactions.time, [3.0, 5.0, 9.5])
    assert_array_equal(data.interactions.edge, [[2.0], [1.0], [3.0]])
    assert_array_equal(data.label, [1, -1, 0])


def test_one_id_space_keeps_its_numbers(tmp_path):
    data = load_folder(write(tmp_path, EVENTS, bipartite=False))
    assert_array_equal(data.interactions.destination, [0, 1, 1])
    assert data.interactions.edge.shape == (3, 0)
    assert data.node_features is None


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ("a,b\n0,1\n", "line 1: it must be"),
        (f"{HEADER}0,x,1,0\n", "line 2: column 'item' must be a number, not 'x'"),
        (f"{HEADER}0,1,1\n", "line 2: 3 cells, but 4 columns are named"),
        (HEADER, "no rows at all"),
        (f"{HEADER}0,0,1,0\n0.5,0,1,0\n", "line 3: column 'user' must be a row number, from 0, not 0.5"),
        (f"{HEADER}0,1e12,1,0\n", r"line 2: column 'item' must be a row number, from 0, not 1e\+12"),
        (f"{HEADER}0,nan,1,0\n", "line 2: column 'item' must be a number, not 'nan'"),
        (f"{HEADER}0,0,1,0\n1,-1,1,0\n", "line 3: no destination"),
        (f"{HEADER}0,0,1,0\n1,1,,0\n1,1,,0\n", "line 3: no finite time in 2 rows"),
        (f"{HEADER}0,0,1,0\n1,1,inf,0\n", "line 3: column 'timestamp' must be a number, not 'inf'"),
        (f"{HEADER},1,1,0\n", "line 2: column 'user' must be a row number, from 0, not empty"),
        (f"{HEADER}0,0,1,0\n1,1,2,300\n", "line 3: column 'label' must be 0, 1 or −1 where there is none, not 300"),
    ],
)
def test_malformed_events_are_refused_with_the_file(tmp_path, events, reason):
    with pytest.raises(DataError, match=rf"events\.csv\.gz.*{reason}"):
        load_folder(write(tmp_path, events))


def test_edge_features_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(DataError, match="2 rows"):
        load_folder(write(tmp_path, EVENTS, edge=np.zeros((2, 1))))


def test_features_that_are_not_finite_are_refused_with_their_row(tmp_path):
    with pytest.raises(DataError, match=r"events\.csv\.gz, line 3: feature 0 not finite in 1 rows"):
        load_folder(write(tmp_path, EVENTS, edge=np.array([[1.0], [np.nan], [3.0]])))
    (tmp_path / "edge_features.npz").unlink()
    np.savez(tmp_path / "node_features.npz", user=np.full((3, 1), np.inf), item=np.ones((2, 1)))
    with pytest.raises(DataError, match=r"node_features\.npz holds numbers that are not finite"):
        load_folder(tmp_path)


def test_check_tells_of_all_rows_in_the_order_of_the_file(tmp_path):
    report = check_folder(write(tmp_path, EVENTS.replace("9.5", "")))
    assert [(each.what, each.first) for each in report.findings[:2]] == [
        ("no finite time", "line 4"),
        ("time before that of the row above", "line 3"),
    ]
    assert not report.usable


def test_users_and_items_have_columns_of_their_own(tmp_path):
    folder = write(tmp_path, EVENTS)
    np.savez(folder / "node_features.npz", user=np.ones((3, 2)), item=np.full((2, 1), 5.0))
    expected = [[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 5], [0, 0, 5]]
    assert_array_equal(load_folder(folder).node_features, expected)


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        load_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "events", "nodes"),
    [("collegemsg", 59_835, 1_899), ("bitcoin_otc", 35_592, 5_881), ("oulad", 173_912, 23_557)],
)
def test_real_folders_have_the_published_sizes(name, events, nodes):
    if not (SHARED / name).is_dir():
        pytest.skip(f"no data set {name} in {SHARED}")
    data = load_folder(SHARED / name)
    assert len(data.interactions) == events
    assert data.interactions.node_count == nodes
