"""Raw records to arrays: order, repeats, bad records, and which interaction a label judges."""

import numpy as np
import orjson
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from stream_tgat.datasets.stream import StreamRecord
from stream_tgat.training.log import DIFFERING_REPEAT, REPEAT, LogBuilder
from stream_tgat.training.window import Window
from tests.logs import build_log

from .conftest import interaction, label


def test_interactions_are_in_time_then_id_order_whatever_the_order_of_arrival(topology):
    rows = [(3, 5.0), (1, 7.0), (2, 5.0), (9, 1.0)]
    log = build_log(topology, [interaction(number, "a", "x", time) for number, time in rows])
    assert log.ids.tolist() == [b"e00009", b"e00002", b"e00003", b"e00001"]
    assert log.interactions.time.tolist() == [1.0, 5.0, 5.0, 7.0]


def test_interaction_is_its_id_user_item_and_time_and_a_repeat_counts_once(topology):
    others = [
        interaction(1, "a", "x", 5.0, 2.0),
        interaction(1, "a", "x", 6.0, 2.0),
        interaction(1, "a", "y", 5.0, 2.0),
        interaction(1, "b", "x", 5.0, 2.0),
    ]
    log = build_log(topology, [*others, others[2], others[0], others[0]])
    users, items = ([log.nodes[n] for n in ends] for ends in (log.interactions.source, log.interactions.destination))
    assert list(zip(log.ids, log.interactions.time, users, items, strict=True)) == [
        (b"e00001", 5.0, b"ua", b"ix"),
        (b"e00001", 5.0, b"ua", b"iy"),
        (b"e00001", 5.0, b"ub", b"ix"),
        (b"e00001", 6.0, b"ua", b"ix"),
    ]
    assert log.skipped == {"interactions": {REPEAT: 3}}


@pytest.mark.parametrize("reading", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_of_repeats_in_several_partitions_the_first_in_the_log_stays_in_whatever_order_they_are_read(topology, reading):
    records = [
        (interaction(1, "a", "x", 5.0, 4.0), 1, 7),
        (interaction(1, "a", "x", 5.0, 2.0), 0, 9),
        (interaction(1, "a", "x", 5.0, 2.0), 1, 8),
        (interaction(2, "a", "x", 9.0, 1.0), 1, 9),
    ]
    builder = LogBuilder(topology)
    for each, partition, offset in (records[at] for at in reading):
        builder.interaction(each.value, each.headers, partition, offset)
    log = builder.build()
    assert_allclose(log.interactions.edge, [[2.0], [1.0]])
    assert log.skipped == {"interactions": {REPEAT: 1, DIFFERING_REPEAT: 1}}
    assert builder.first_offsets() == {0: 9, 1: 9}


def test_repeats_take_no_place_in_a_window(topology, monkeypatch):
    monkeypatch.setattr("stream_tgat.training.log.ENCODE_AT_ONCE", 4)
    builder = LogBuilder(topology, Window(interactions=3))
    for time in range(10):
        for _ in range(5):
            each = interaction(time, "a", "x", float(time))
            builder.interaction(each.value, each.headers)
    assert builder.build().interactions.time.tolist() == [7.0, 8.0, 9.0]


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
    (unmatched,) = log.unmatched
    assert (unmatched.label, unmatched.count, set(unmatched.nodes)) == ("even", 3, {"b", "x", "nobody"})
    assert set(unmatched.why.split("; ")) == {
        "'b' had no interaction until then",
        "'x' is an item, and heads are about users",
        "'nobody' was not seen",
    }


def test_item_that_shares_a_user_s_name_has_no_part_in_its_labels(topology):
    log = build_log(
        topology, [interaction(1, "a", "z", 5.0), interaction(2, "b", "a", 6.0), label("a", "even", 1, 6.0, 6.0)]
    )
    assert log.labels["even"].event.tolist() == [0]


def test_label_that_does_not_tell_when_it_became_known_is_no_answer(topology):
    records = [
        interaction(1, "a", "x", 5.0),
        label("a", "even", 1, 5.0, "at some time"),
        label("a", "even", 1, 5.0, 4.0),
    ]
    log = build_log(topology, records)
    assert len(log.labels["even"]) == 0
    assert sum(log.skipped["labels"].values()) == 2


def test_label_without_a_head_is_counted(topology):
    log = build_log(topology, [interaction(1, "a", "x", 5.0), label("a", "other", 1, 5.0, 5.0)])
    assert log.skipped == {}
    (told,) = map(str, log.unmatched)
    assert told == "1 label 'other' (such as of 'a'): no head learns 'other'; heads learn 'even', 'never'"


def test_mistyped_names_are_shown_beside_the_right_ones(topology):
    records = [interaction(1, "ann", "x", 5.0), *(label("ann", "evne", 1, 5.0, 5.0) for _ in range(40))]
    log = build_log(topology, [*records, label("Ann ", "even", 1, 5.0, 5.0), label("ann", "even", 1, 4.0, 4.0)])
    head, nodes = log.unmatched
    assert str(head) == "40 labels 'evne' (such as of 'ann'): no head learns 'evne'; did you mean 'even'?"
    assert nodes.count == 2
    assert nodes.why == "'Ann ' was not seen, did you mean 'ann'?; 'ann' had no interaction until then"


def test_label_about_an_item_is_refused(topology):
    value = {"node": "x", "kind": "item", "label": "even", "value": 1, "timestamp": 5.0}
    log = build_log(topology, [interaction(1, "a", "x", 5.0), StreamRecord("labels", b"x", orjson.dumps(value), 5.0)])
    ((reason, count),) = log.skipped["labels"].items()
    assert (count, "labels are about users" in reason) == (1, True)


def test_order_of_reading_changes_nothing(topology, records, log):
    random = np.random.default_rng(3)
    other = build_log(topology, [records[at] for at in random.permutation(len(records))])
    assert other.nodes == log.nodes
    assert other.ids.tolist() == log.ids.tolist()
    assert_array_equal(other.interactions.source, log.interactions.source)
    assert_array_equal(other.interactions.destination, log.interactions.destination)
    assert_array_equal(other.node_features, log.node_features)
    for name, labels in log.labels.items():
        assert_array_equal(other.labels[name].event, labels.event)


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        (Window(), 600),
        (Window(seconds=1_000.0), 101),  # one every ten seconds, the first of them included
        (Window(seconds=1e9), 600),
        (Window(interactions=100), 100),
        (Window(interactions=10_000), 600),
        (Window(seconds=1_000.0, interactions=30), 30),
        (Window(seconds=300.0, interactions=100), 31),
        (Window(since=1e9 + 5_900.0), 10),
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_window_keeps_the_newest_and_their_labels(topology, records, log, window, kept, shuffled, monkeypatch):
    monkeypatch.setattr("stream_tgat.training.log.ENCODE_AT_ONCE", 16)
    builder = LogBuilder(topology, window)
    order = np.random.default_rng(4).permutation(len(records)) if shuffled else range(len(records))
    fed = [records[at] for at in order]
    for offset, each in enumerate(each for each in fed if each.topic == "interactions"):
        builder.interaction(each.value, each.headers, offset % 3, offset)
    for each in fed:
        if each.topic == "nodes":
            builder.node(each.value, each.headers)
        elif each.topic == "labels":
            builder.label(each.value, each.headers)
    part = builder.build()
    assert part.ids.tolist() == log.ids[-kept:].tolist()
    assert builder.left_out == 600 - kept
    assert [part.nodes[n] for n in part.interactions.source] == [log.nodes[n] for n in log.interactions.source[-kept:]]
    assert set(part.nodes) == {part.nodes[n] for n in (*part.interactions.source, *part.interactions.destination)}
    assert_array_equal(part.interactions.edge, log.interactions.edge[-kept:])
    for name, labels in part.labels.items():
        whole = log.labels[name].select(log.labels[name].event >= 600 - kept)
        assert_array_equal(labels.event, whole.event - (600 - kept))
        assert_array_equal(labels.value, whole.value)


def test_window_parts_no_time_and_its_begin_says_it_all(topology):
    records = [interaction(number, "a", "x", float(time)) for number, time in enumerate([1, 2, 3, 3, 3, 4])]
    builder = LogBuilder(topology, Window(interactions=2))
    for each in records:
        builder.interaction(each.value, each.headers)
    part = builder.build()
    assert part.interactions.time.tolist() == [3.0, 3.0, 3.0, 4.0]
    assert builder.begin == 3.0
    again = LogBuilder(topology, Window(since=builder.begin))
    for each in reversed(records):
        again.interaction(each.value, each.headers)
    assert again.build().ids.tolist() == part.ids.tolist()


def test_window_holds_at_most_twice_what_it_keeps(topology, monkeypatch):
    monkeypatch.setattr("stream_tgat.training.log.ENCODE_AT_ONCE", 10)
    builder = LogBuilder(topology, Window(seconds=49.0))
    for number in range(2_000):
        each = interaction(number, f"u{number}", f"i{number}", float(number))
        builder.interaction(each.value, each.headers)
        assert sum(len(rows.time) for rows in builder._parts) <= 2 * 50 + 10 + 10
        assert len(builder._numbers) <= 2 * (2 * 50 + 20)
    assert len(builder.build().interactions) == 50


def test_window_knows_the_first_offset_of_each_partition_that_it_needs(topology):
    builder = LogBuilder(topology, Window(seconds=2.0))
    for partition, offset, time in [(0, 3, 1.0), (0, 4, 9.0), (0, 5, 8.0), (1, 7, 10.0), (2, 0, 3.0), (1, 8, 2.0)]:
        each = interaction(10 * partition + offset, "a", "x", time)
        builder.interaction(each.value, each.headers, partition, offset)
    builder.build()
    assert builder.first_offsets() == {0: 4, 1: 7}


def test_what_is_from_the_future_is_told_by_when_it_was_written(topology):
    """By nothing else: a log that is read again later is the same log."""
    for written, kept in ((None, 0), (5e9 - 299.0, 1), (5e9 - 301.0, 0)):
        builder = LogBuilder(topology)
        asked, answer = interaction(1, "a", "x", 1e9), label("a", "even", 1, 5e9, 5e9)
        future = interaction(2, "a", "x", 5e9)
        builder.interaction(asked.value, asked.headers, 0, 0, 1e9)
        builder.interaction(future.value, future.headers, 0, 1, written)
        builder.label(answer.value, answer.headers, written)
        log = builder.build()
        assert len(log.interactions) == 1 + kept
        assert len(log.labels["even"]) == kept
