"""The grocery stream: no label before its time, one question a basket, nothing fitted on the future."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from research.datasets.groceries import (
    DAY_S,
    FEATURES,
    GROUPS,
    HORIZON_S,
    QUIET_S,
    START,
    Purchases,
    build,
    interest_targets,
    load_groceries,
    sample_households,
    without_everyday,
)
from research.datasets.records import interleave, punctuated
from stream_tgat.datasets.stream import StreamRecord

SECOND = np.timedelta64(1, "s")


def make_products():
    rows = [
        (1, "NUTRITION", "Private", "CEREAL/BREAKFAST", "CEREAL - COLD", "14 OZ"),
        (2, "GROCERY", "National", "COLD CEREAL", "CEREAL - COLD", "14 OZ"),
        (3, "GROCERY", "National", "DOG FOODS", "DOG TREATS", "5 LB"),
        (4, "PRODUCE", "National", "ORGANICS FRUIT & VEGETABLES", "ORGANIC CARROTS", None),
        (5, "DRUG GM", "National", "BABY HBC", "COTTON COTTON SWABS", "1 CT"),
        (6, "DRUG GM", "National", "BABY FOODS", "BABY JUICES", "1 CT"),
        (7, "GROCERY", "National", "FLUID MILK", "FLUID MILK WHITE ONLY", "1 GA"),
        (8, "GROCERY", "Private", "FLUID MILK", "FLUID MILK WHITE ONLY", "2 GA"),
        (9, "MEAT", "National", None, None, None),
    ]
    columns = ["product_id", "department", "brand", "product_category", "product_type", "package_size"]
    return pd.DataFrame(rows, columns=columns)


def make_transactions(rows):
    """rows: (household, basket, product, quantity, value, day)."""
    frame = pd.DataFrame(rows, columns=["household_id", "basket_id", "product_id", "quantity", "sales_value", "day"])
    frame["transaction_timestamp"] = np.datetime64("2017-01-01") + (frame.pop("day") * DAY_S).astype(int) * SECOND
    return frame.assign(retail_disc=0.25, coupon_disc=0.5, coupon_match_disc=0.25)


TRANSACTIONS = [
    (7, 100, 1, 1, 2.0, 1), (7, 100, 7, 1, 1.0, 1), (7, 100, 8, 2, 3.0, 1),
    (9, 101, 2, 1, 4.0, 2), (9, 101, 3, 1, 5.0, 2),
    (7, 102, 4, 1, 2.0, 70), (9, 103, 6, 1, 2.0, 75), (9, 103, 9, 1, 1.0, 75),
    (7, 104, 5, 3, 2.0, 150),
]  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return build(make_transactions(TRANSACTIONS), make_products(), START + 100 * DAY_S)


def test_purchases_of_one_type_in_a_basket_are_one_interaction(small):
    bought = small.purchases
    milk = small.items.index("FLUID MILK WHITE ONLY")
    row = np.flatnonzero(bought.item == milk)
    assert len(row) == 1
    fields = dict(zip(FEATURES, bought.fields[row[0]], strict=True))
    assert fields["quantity"] == 3
    assert fields["value"] == 4.0
    assert fields["discount"] == 0.5
    assert fields["coupon"] == 1.5
    assert fields["private_brand"] == 1
    assert fields["basket_items"] == 2
    assert fields["basket_value"] == 6.0


def test_groups_follow_the_text_of_the_product(small):
    bought = small.purchases
    members = {
        small.items[item]: {group for at, group in enumerate(GROUPS) if bought.group[row, at]}
        for row, item in enumerate(bought.item)
    }
    assert members == {
        "NUTR CEREAL - COLD": {"dietary"},
        "CEREAL - COLD": set(),
        "DOG TREATS": {"pet"},
        "ORGANIC CARROTS": {"organic"},
        "COTTON COTTON SWABS": set(),
        "BABY JUICES": {"baby"},
        "FLUID MILK WHITE ONLY": set(),
        "MEAT": set(),
    }


def slow_targets(household, time, of_group, begin, end):
    """By the words of the definition, one basket at a time."""
    found = set()
    for h, t in {(h, t) for h, t in zip(household, time, strict=True)}:
        mine = [s for g, s, hit in zip(household, time, of_group, strict=True) if g == h and hit]
        if t - QUIET_S < begin or t + HORIZON_S > end:
            continue
        if any(t - QUIET_S <= s <= t for s in mine):
            continue
        found.add((h, t, float(any(t < s < t + HORIZON_S for s in mine)), t + HORIZON_S))
    return found


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.booleans()), min_size=1, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_targets_equal_their_definition(rows):
    rows.sort(key=lambda row: row[1])
    # Steps of 7 days land on both window edges exactly.
    household, time, hit = (np.array(column) for column in zip(*rows, strict=True))
    time = START + time * 7 * DAY_S
    empty = np.zeros(len(rows), np.int64)
    bought = Purchases(household.astype(np.int64), empty, time, empty, hit[:, None], np.zeros((len(rows), 0)))
    targets = interest_targets(bought, hit.astype(bool), START, START + 280 * DAY_S)
    got = list(zip(targets.household.tolist(), targets.time, targets.value, targets.known, strict=True))
    assert len({(h, t) for h, t, *_ in got}) == len(got)
    assert set(got) == slow_targets(household.tolist(), time.tolist(), hit.tolist(), START, START + 280 * DAY_S)
    assert (np.diff(targets.time) >= 0).all()


@pytest.fixture(scope="module")
def real():
    return load_groceries(40, everyday=0.1)


def test_no_label_leaves_before_its_time(real):
    seen = {}
    for each in real.stream():
        if each.topic == "labels":
            import orjson

            label = orjson.loads(each.value)
            assert each.time == label["timestamp"] + 28 * DAY_S
            assert (label["node"], label["label"], label["timestamp"]) not in seen
            seen[label["node"], label["label"], label["timestamp"]] = label["value"]
            assert label["known_at"] == each.time
    assert set(seen.values()) == {0.0, 1.0}


def test_stream_is_in_the_order_in_which_facts_become_known(real):
    times = [each.time for each in real.stream()]
    assert times == sorted(times)


def test_stream_cut_in_two_is_the_whole_stream(real):
    def content(records):
        return [(each.topic, each.value, each.time) for each in records if each.value is not None]

    before, after = content(real.stream(end=real.cutoff)), content(real.stream(begin=real.cutoff))
    assert before + after == content(real.stream())
    assert all(time < real.cutoff for *_, time in before)
    assert any(topic == "labels" for topic, *_ in before)


def test_punctuation_never_overtakes_an_interaction(real):
    watermark = float("-inf")
    last = 0.0
    for each in real.stream():
        if each.value is None:
            watermark = float(dict(each.headers)["watermark"])
        elif each.topic == "interactions":
            assert each.time >= watermark
            last = each.time
    assert watermark > last


def test_punctuated_keeps_interactions_of_one_time_together():
    def at(time):
        return StreamRecord("interactions", b"k", b"v", time)

    result = list(punctuated([at(0.0), at(5.0), at(5.0), at(6.0)], every_s=4.0))
    assert [(each.value is None, each.time) for each in result][:-1] == [
        (False, 0.0), (True, 5.0), (False, 5.0), (False, 5.0), (False, 6.0),
    ]  # fmt: skip
    assert result[-1].value is None
    assert 6.0 < result[-1].time < 6.001


def test_interleave_puts_the_earlier_argument_first_at_equal_times():
    one, other = StreamRecord("a", None, None, 1.0), StreamRecord("b", None, None, 1.0)
    assert [each.topic for each in interleave([one], [other])] == ["a", "b"]


def test_text_vectors_ignore_what_is_sold_after_the_cutoff():
    products = make_products()
    later = [*TRANSACTIONS, (9, 105, 2, 1, 1.0, 200), (9, 105, 8, 1, 1.0, 200)]
    one = build(make_transactions(TRANSACTIONS), products, START + 100 * DAY_S)
    changed = products.copy()
    changed.loc[changed.product_id == 5, "product_type"] = "SOMETHING ELSE ENTIRELY"
    two = build(make_transactions(later), changed, START + 100 * DAY_S)
    for name in ("DOG TREATS", "CEREAL - COLD", "FLUID MILK WHITE ONLY"):
        assert_array_equal(one.vectors[one.items.index(name)], two.vectors[two.items.index(name)])


def test_text_vectors_do_depend_on_what_is_sold_before_the_cutoff():
    products = make_products()
    one = build(make_transactions(TRANSACTIONS), products, START + 100 * DAY_S)
    two = build(make_transactions(TRANSACTIONS), products, START + 160 * DAY_S)
    at = one.items.index("DOG TREATS")
    assert np.abs(one.vectors[at] - two.vectors[at]).max() > 1e-3


def test_everyday_items_leave_unless_they_belong_to_a_group(small):
    frame = pd.DataFrame(
        {
            "item_name": ["milk", "milk", "kibble", "kibble", "rare", "late"],
            "household_id": [1, 2, 1, 2, 1, 2],
            "time": [0.0, 1.0, 2.0, 3.0, 4.0, 99.0],
            "group_pet": [False, False, True, True, False, False],
            **{f"group_{name}": False for name in GROUPS if name != "pet"},
        }
    )
    assert set(without_everyday(frame, 10.0, 0.5).item_name) == {"kibble", "rare", "late"}


def test_sample_of_households_is_nested_and_follows_the_seed():
    ids = np.arange(1000)
    small, large = sample_households(ids, 50, 0), sample_households(ids[::-1], 200, 0)
    assert set(small) < set(large)
    assert len(small) == 50
    assert set(sample_households(ids, 50, 1)) != set(small)


def test_two_loads_give_the_same_stream(real):
    again = load_groceries(40, everyday=0.1)
    assert list(again.stream()) == list(real.stream())
    assert_array_equal(again.vectors, real.vectors)
