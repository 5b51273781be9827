"""A user's file is read as the stream would have read its rows."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

from stream_tgat.errors import DataError
from stream_tgat.evaluation.own_data import Named, read_own_data
from stream_tgat.topology import Topology


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path, rows):
    path = tmp_path / f"events.{request.param}"
    # Any order: loading sorts by time.
    table = pa.Table.from_pylist(rows[300:] + rows[:300])
    csv.write_csv(table, path) if request.param == "csv" else parquet.write_table(table, path)
    return path


NAMED = Named(label="even")


def test_file_gives_what_the_log_of_the_same_rows_gives(file, shop, log):
    own = read_own_data(file, shop, NAMED)
    assert own.report.rows == 600
    assert [each.what for each in own.report.findings] == ["time before that of the row above"]
    assert_array_equal(own.log.interactions.time, log.interactions.time)
    assert_array_equal(own.log.interactions.edge, log.interactions.edge)
    keys = [node.decode()[1:] for node in log.nodes]  # without the byte that tells the kind
    for mine, theirs in (
        (own.log.interactions.source, log.interactions.source),
        (own.log.interactions.destination, log.interactions.destination),
    ):
        assert [own.log.nodes[n].decode() for n in mine] == [keys[n] for n in theirs]
    for name in ("event", "value", "known"):
        assert_array_equal(getattr(own.log.labels["even"], name), getattr(log.labels["even"], name))


def test_file_without_labels_has_none(file, shop):
    assert len(read_own_data(file, shop, Named()).log.labels["even"]) == 0


def test_row_that_the_stream_would_refuse_is_named(tmp_path, shop, rows):
    path = tmp_path / "events.parquet"
    parquet.write_table(pa.Table.from_pylist([rows[0], {**rows[1], "amount": None}]), path)
    with pytest.raises(DataError, match=r"events.parquet, row 2: field 'amount' is missing"):
        read_own_data(path, shop, Named())


def test_missing_column_is_named(tmp_path, shop, rows):
    path = tmp_path / "events.csv"
    csv.write_csv(pa.Table.from_pylist([{k: v for k, v in row.items() if k != "kind"} for row in rows]), path)
    with pytest.raises(DataError, match="has no column 'kind'"):
        read_own_data(path, shop, Named())


def plain(size, **more):
    features = [{"kind": "vector", "name": "text", "size": size}] if size else []
    return Topology.model_validate({"name": "plain", "features": features, "heads": [{"name": "banned"}], **more})


JODIE = (
    "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    "0,0,1.0,0,0.5,1\n1,0,2.0,1,-0.5,0\n0,1,2.0,0,0.25,0\n"
)


def test_jodie_file_has_the_edge_vector_and_the_label_of_its_one_head(tmp_path):
    path = tmp_path / "wikipedia.csv"
    path.write_text(JODIE)
    own = read_own_data(path, plain(2), Named())
    assert_array_equal(own.log.interactions.edge, np.array([[0.5, 1], [-0.5, 0], [0.25, 0]], np.float32))
    assert own.log.nodes == (b"0", b"1", b"0", b"1")
    assert own.log.interactions.destination.tolist() == [2, 2, 3]
    assert own.log.labels["banned"].value.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(DataError, match="2 features without names, but the topology 'plain' makes 3 numbers"):
        read_own_data(path, plain(3), Named())


def test_one_label_for_two_heads_that_learn_others_is_refused(tmp_path):
    path = tmp_path / "wikipedia.csv"
    path.write_text(JODIE)
    with pytest.raises(DataError, match="heads learn banned, gone"):
        read_own_data(path, plain(2, heads=[{"name": "banned"}, {"name": "gone"}]), Named())


def test_folder_of_a_data_set_is_read_with_its_node_features(tmp_path):
    with gzip.open(tmp_path / "events.csv.gz", "wt") as file:
        file.write("user,item,timestamp,label\n0,0,1.0,-1\n1,0,2.0,1\n")
    (tmp_path / "meta.json").write_text(json.dumps({"bipartite": True}))
    np.savez(tmp_path / "node_features.npz", user=np.ones((2, 1)), item=np.ones((1, 2)))
    own = read_own_data(tmp_path, plain(0, graph={"node_features": 3}), Named())
    assert_array_equal(own.log.node_features, [[1, 0, 0], [1, 0, 0], [0, 1, 1]])
    assert own.log.labels["banned"].event.tolist() == [1]
    with pytest.raises(DataError, match=r"3 features of a node, but graph.node_features is 5"):
        read_own_data(tmp_path, plain(0, graph={"node_features": 5}), Named())
