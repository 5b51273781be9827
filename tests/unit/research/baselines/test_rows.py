"""The table has the paper's rows, in one width and with the same inputs."""

import pytest

from research.baselines.autoencoder import GraphAutoencoder
from research.baselines.rows import paper_rows
from research.baselines.skipgram import CTDNE, DeepWalk, Node2vec
from research.baselines.temporal import TemporalMethod

ROWS = paper_rows(TemporalMethod("", width=24, activity=True))


def row(name):
    return next(row for row in ROWS if row.name == name)


def test_every_row_of_the_paper_is_there_once():
    assert sorted(row.name for row in ROWS) == sorted(
        [
            "GAE", "VGAE", "DeepWalk", "Node2vec", "CTDNE", "TGAT", "TGAT + pair recurrence", "Const-TGAT", "GAT",
            "GAT+T", "GraphSAGE-mean", "GraphSAGE-pool", "GraphSAGE-LSTM", "GraphSAGE+T",
        ]
    )  # fmt: skip


def test_plain_rows_have_the_papers_affinity_and_no_pair_recurrence():
    plain = {row.name: row for row in paper_rows(TemporalMethod(""))}
    assert set(plain) == {row.name for row in ROWS} - {"TGAT + pair recurrence"} | {"TGAT (inner product)"}
    assert vars(plain["TGAT (inner product)"]) == vars(plain["TGAT"]) | {
        "name": "TGAT (inner product)",
        "affinity": "inner",
    }
    recurrent = row("TGAT + pair recurrence")
    assert vars(recurrent) == vars(row("TGAT")) | {"name": "TGAT + pair recurrence", "pair_features": True}


def test_every_row_reads_activity_and_has_the_same_width():
    assert all(getattr(row, "scoring", row).activity for row in ROWS)
    assert {row.skip_gram.width if hasattr(row, "skip_gram") else row.width for row in ROWS} == {24}


@pytest.mark.parametrize(
    ("name", "aggregation", "reads_time"),
    [
        ("TGAT", None, True),
        ("Const-TGAT", "constant", True),
        ("GAT", "additive", False),
        ("GAT+T", "additive", True),
        ("GraphSAGE-mean", "mean", False),
        ("GraphSAGE-pool", "pool", False),
        ("GraphSAGE-LSTM", "lstm", False),
        ("GraphSAGE+T", "mean", True),
    ],
)
def test_a_network_sums_up_and_reads_time_as_its_name_says(name, aggregation, reads_time):
    method = row(name)
    assert isinstance(method, TemporalMethod)
    assert (method.aggregation, method.reads_time) == (aggregation, reads_time)


def test_sizes_are_the_papers():
    assert isinstance(row("GAE"), GraphAutoencoder)
    assert (row("GAE").hidden, row("GAE").variational, row("VGAE").variational) == (200, False, True)
    deepwalk, node2vec, ctdne = row("DeepWalk"), row("Node2vec"), row("CTDNE")
    assert isinstance(deepwalk, DeepWalk)
    assert isinstance(node2vec, Node2vec)
    assert isinstance(ctdne, CTDNE)
    assert (deepwalk.walks_per_node, deepwalk.walk_length, deepwalk.weighted, deepwalk.p) == (80, 30, False, (1.0,))
    assert (node2vec.walks_per_node, node2vec.walk_length, node2vec.weighted) == (80, 30, True)
    assert (node2vec.p, node2vec.q, ctdne.walk_length) == ((0.6, 0.8), 1.0, 80)
    assert TemporalMethod("").width == 100
    assert row("GraphSAGE-LSTM").neighbours == 20
