"""CSV and Parquet alike: names of columns, ids of any kind, times, and what is wrong told with its row."""

import gzip

import numpy as np
import orjson
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

from stream_tgat.datasets.table import Columns, in_time_order, load_table, read_rows
from stream_tgat.errors import DataError

TGB = {"src": [7, 3, 9], "dst": [3, 9, 7], "timestamp": [20, 5, 20], "weight": [0.5, 1.5, 2.5], "kind": [1, 0, 1]}


@pytest.fixture(params=["csv", "csv.gz", "jsonl", "parquet"])
def write(request, tmp_path):
    """Writes columns to a file of each format."""

    def written(columns):
        table, file = pa.table(columns), tmp_path / f"data.{request.param}"
        if request.param == "parquet":
            parquet.write_table(table, file)
        elif request.param == "jsonl":
            file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in table.to_pylist()))
        elif request.param == "csv":
            csv.write_csv(table, file)
        else:
            with gzip.open(file, "wb") as stream:
                csv.write_csv(table, stream)
        return file

    return written


def test_rows_are_sorted_and_nodes_numbered_by_first_appearance(write):
    data = load_table(write(TGB))
    # Oldest first: 3→9 at 5, then 7→3 and 9→7 at 20 in the file's order.
    assert_array_equal(data.interactions.source, [0, 2, 1])
    assert_array_equal(data.interactions.destination, [1, 0, 2])
    assert_array_equal(data.interactions.time, [5, 20, 20])
    assert_array_equal(data.interactions.edge, [[1.5, 0], [0.5, 1], [2.5, 1]])
    assert_array_equal(data.names, [3, 9, 7])
    assert_array_equal(data.label, [-1, -1, -1])
    assert not data.bipartite


def test_separate_ids_are_different_nodes_sources_first(write):
    data = load_table(write(TGB), Columns(features=(), separate_ids=True))
    assert_array_equal(data.interactions.source, [0, 1, 2])
    assert_array_equal(data.interactions.destination, [3, 4, 5])
    assert data.names.tolist() == [3, 7, 9, 9, 3, 7]
    assert data.interactions.edge.shape == (3, 0)


def test_only_the_features_asked_for_are_read(write):
    file = write({**TGB, "note": ["a", "b", "c"]})
    assert read_rows(file, Columns(features=("kind",))).feature_names == ("kind",)
    with pytest.raises(DataError, match=r"column 'note' (must be a number, not 'a'|is not one of numbers)"):
        load_table(file)


def test_names_may_be_text_and_labels_partly_known(write):
    columns = {"who": ["b", "a", "b"], "what": ["x", "b", "x"], "when": [1.5, 2.5, 3.5], "bad": [None, 0, 1]}
    data = load_table(write(columns), Columns("who", "what", "when", label="bad"))
    assert data.names.tolist() == ["b", "x", "a"]
    assert_array_equal(data.interactions.source, [0, 2, 0])
    assert_array_equal(data.interactions.destination, [1, 0, 1])
    assert_array_equal(data.label, [-1, 0, 1])


def test_numbers_and_text_in_one_space_meet_as_text(write):
    data = load_table(write({"src": [1, 2], "dst": ["2", "x"], "timestamp": [0, 1]}))
    assert data.names.tolist() == ["1", "2", "x"]
    assert_array_equal(data.interactions.source, [0, 1])


def test_large_ids_are_not_confused(write):
    large = pa.array([2**64 - 1, 2**64 - 2, 2**53 + 1], pa.uint64())
    data = load_table(write({"src": large, "dst": [1, 2, 3], "timestamp": [0, 1, 2]}))
    assert data.interactions.source.tolist() == [0, 2, 4]
    assert data.names.tolist() == [str(2**64 - 1), "1", str(2**64 - 2), "2", str(2**53 + 1), "3"]


def test_ids_of_text_stay_what_they_are_and_whole_doubles_are_integers(write):
    data = load_table(write({"src": ["007", "7"], "dst": ["7", "x"], "timestamp": [0, 1]}))
    assert data.names.tolist() == ["007", "7", "x"]
    data = load_table(write({"src": [1.0, 2.0], "dst": [2, 3], "timestamp": [0, 1]}))
    assert data.names.tolist() == [1, 2, 3]


def test_time_stamps_are_seconds_of_utc(write):
    when = pa.array(np.array(["1970-01-02T00:00:00.5", "1970-01-03"], "datetime64[ms]"))
    data = load_table(write({"src": [1, 2], "dst": [2, 1], "timestamp": when}))
    assert_array_equal(data.interactions.time, [86400.5, 172800])


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("src", [1, None, 2], r"(line 3|jsonl, line 2|row 2): no source in 1 rows"),
        ("dst", [None, 1, None], r"(line 2|jsonl, line 1|row 1): no destination in 2 rows"),
        ("timestamp", [1.0, 2.0, None], r"(line 4|jsonl, line 3|row 3): no finite time"),
        ("weight", [1.0, None, 2.0], r"(line 3|jsonl, line 2|row 2): feature weight not finite"),
    ],
)
def test_what_is_missing_is_refused_with_its_row(write, name, values, reason):
    with pytest.raises(DataError, match=reason):
        load_table(write({**TGB, name: values}))


def test_columns_that_are_not_there_are_named_with_those_that_are(write):
    with pytest.raises(DataError, match="no column 'user', only src, dst, timestamp"):
        load_table(write(TGB), Columns(source="user"))
    with pytest.raises(DataError, match="no column 'x'"):
        load_table(write(TGB), Columns(features=("x",)))


def test_labels_are_zero_or_one(write):
    with pytest.raises(DataError, match=r"(line 3|jsonl, line 2|row 2): column 'y' is 2"):
        load_table(write({**TGB, "y": [0, 2, 1]}), Columns(label="y"))


def test_file_that_is_absent_is_named(tmp_path):
    for name in ("nowhere.csv", "nowhere.parquet"):
        with pytest.raises(DataError, match=name):
            load_table(tmp_path / name)


def test_file_without_rows_is_refused(write):
    with pytest.raises(DataError, match="no rows at all"):
        load_table(
            write(
                {
                    "src": pa.array([], pa.int64()),
                    "dst": pa.array([], pa.int64()),
                    "timestamp": pa.array([], pa.float64()),
                }
            )
        )


def test_rows_out_of_order_are_told_and_sorted(write):
    rows = read_rows(write(TGB), Columns())
    assert [each.what for each in rows.check().findings if each.severity == "warning"] == [
        "time before that of the row above"
    ]
    assert_array_equal(in_time_order(rows).interactions.time, [5, 20, 20])
