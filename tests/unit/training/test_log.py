"""Raw records to arrays: order, repeats, bad records, and which interaction a label judges."""

import orjson
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.evaluation.datasets.stream import StreamRecord
from stream_tgat.training.log import build_log

from .conftest import interaction, label


def test_interactions_are_in_time_then_id_order_whatever_the_order_of_arrival(topology):
    rows = [(3, 5.0), (1, 7.0), (2, 5.0), (9, 1.0)]
    log = build_log(topology, [interaction(number, "a", "x", time) for number, time in rows])
    assert log.ids.tolist() == [b"e00009", b"e00002", b"e00003", b"e00001"]
    assert log.interactions.time.tolist() == [1.0, 5.0, 5.0, 7.0]


def test_repeated_id_is_taken_once(topology):
    log = build_log(topology, [interaction(1, "a", "x", 5.0, 2.0), interaction(1, "b", "y", 6.0, 3.0)])
    assert len(log.interactions) == 1
    assert log.nodes == (b"ua", b"ix")
    assert_allclose(log.interactions.edge, [[2.0]])


def test_bad_records_are_skipped_and_counted_with_the_stream_s_reason(topology):
    def raw(value):
        return StreamRecord("interactions", b"k", value, 0.0)

    log = build_log(
        topology,
        [
            raw(b"{not json"),
            raw(None),
            raw(orjson.dumps({"user": "a", "item": "x", "timestamp": 5.0})),
            raw(orjson.dumps({"user": "a", "item": "x", "timestamp": 5.0, "amount": "much"})),
            interaction(1, "a", "x", 5.0),
            StreamRecord("nodes", b"k", orjson.dumps({"node": "x", "features": [1.0]}), 0.0),
            StreamRecord("labels", b"k", orjson.dumps({"node": "a", "label": "even", "value": 7, "timestamp": 5}), 0.0),
        ],
    )
    assert len(log.interactions) == 1
    assert sum(log.skipped["interactions"].values()) == 4
    assert any("'amount' is missing" in reason for reason in log.skipped["interactions"])
    assert sum(log.skipped["nodes"].values()) == 1
    assert sum(log.skipped["labels"].values()) == 1


def test_punctuation_is_neither_an_interaction_nor_a_bad_record(topology):
    log = build_log(topology, [StreamRecord("interactions", None, None, 5.0, (("watermark", b"5.0"),))])
    assert len(log.interactions) == 0
    assert log.skipped == {}


def test_last_features_of_a_node_hold_and_unknown_ones_are_zero(topology):
    def node(features):
        return StreamRecord("nodes", b"x", orjson.dumps({"node": "x", "features": features}), 0.0)

    log = build_log(topology, [node([1, 0, 0, 0]), interaction(1, "a", "x", 5.0), node([0, 2, 0, 0])])
    assert_array_equal(log.node_features, [[0, 0, 0, 0], [0, 2, 0, 0]])


def test_label_judges_the_last_interaction_of_its_user_at_or_before_its_time(topology):
    log = build_log(
        topology,
        [
            interaction(1, "a", "x", 5.0),
            interaction(2, "a", "y", 5.0),
            interaction(3, "b", "x", 5.0),
            interaction(4, "a", "x", 9.0),
            label("a", "even", 1, 5.0, 8.0),
            label("a", "even", 0, 8.5, 9.0),
            label("b", "even", 0, 4.0, 9.0),
            label("x", "even", 1, 9.0, 9.0),
            label("nobody", "even", 1, 9.0, 9.0),
        ],
    )
    found = log.labels["even"]
    # e00002 is asked twice, by both of a's labels: one question, the larger answer.
    assert found.event.tolist() == [1]
    assert found.value.tolist() == [1.0]
    assert found.known.tolist() == [8.0]
    assert sum(log.skipped["labels"].values()) == 3


def test_item_that_shares_a_user_s_name_has_no_part_in_its_labels(topology):
    log = build_log(
        topology, [interaction(1, "a", "z", 5.0), interaction(2, "b", "a", 6.0), label("a", "even", 1, 6.0, 6.0)]
    )
    assert log.labels["even"].event.tolist() == [0]


def test_label_without_a_head_is_counted(topology):
    log = build_log(topology, [interaction(1, "a", "x", 5.0), label("a", "other", 1, 5.0, 5.0)])
    assert log.skipped["labels"] == {"no head of the topology learns the label 'other'": 1}


def test_newest_keeps_the_end_of_the_log_and_its_labels(log):
    part = log.newest(100)
    assert_array_equal(part.interactions.time, log.interactions.time[-100:])
    assert part.ids.tolist() == log.ids[-100:].tolist()
    for name, labels in part.labels.items():
        whole = log.labels[name].select(log.labels[name].event >= 500)
        assert_array_equal(labels.event, whole.event - 500)
        assert_array_equal(labels.value, whole.value)
    assert log.newest(None) is log
    assert log.newest(10_000) is log
