import doctest
import math
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import stream_tgat.features
from stream_tgat.features import CategoryFeature, FeatureEncoder, FlagFeature, NumberFeature, VectorFeature
from stream_tgat.topology import Topology


def number(**options: Any) -> FeatureEncoder:
    return FeatureEncoder([NumberFeature(kind="number", name="x", **options)])


def one(encoder: FeatureEncoder, **fields: Any) -> list[float]:
    vectors, errors = encoder.encode([fields])
    assert errors == [None]
    return [float(value) for value in vectors[0]]


def error(encoder: FeatureEncoder, **fields: Any) -> str:
    vectors, errors = encoder.encode([fields])
    assert not vectors.any()
    assert errors[0] is not None
    return errors[0]


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(stream_tgat.features).failed == 0


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({}, 3, 3.0),
        ({"offset": 1.0, "scale": 4.0}, 3.0, 0.5),
        ({"log1p": True}, math.e - 1, 1.0),
        ({"log1p": True}, 1 - math.e, -1.0),
        ({"log1p": True, "offset": 1.0, "scale": 2.0}, math.e**3 - 1, 1.0),
        ({"clip": 2.0}, -7, -2.0),
        ({"clip": 2.0, "scale": 10.0}, 7, 0.7),
        ({"log1p": True, "clip": 5.0}, 1e300, 5.0),
    ],
)
def test_number_is_log_then_offset_scale_and_clip(options: dict[str, Any], value: float, expected: float) -> None:
    assert one(number(**options), x=value) == pytest.approx([expected], rel=1e-6)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("3", "must be a number, not '3'"),
        (True, "must be a number, not true"),
        ([1], "must be a number, not [1]"),
        (math.nan, "must be a finite number, not nan"),
        (-math.inf, "must be a finite number, not -inf"),
        (10**400, "must be a finite number, not inf"),
        (1e39, "is too large for a float32"),
        (None, "is null"),
    ],
)
def test_number_that_is_none_is_an_error(value: object, reason: str) -> None:
    assert reason in error(number(clip=None), x=value)


def test_infinity_is_refused_although_a_clip_would_hide_it() -> None:
    assert "finite" in error(number(clip=1.0), x=math.inf)


def test_missing_and_null_take_the_default_only_where_there_is_one() -> None:
    assert error(number()) == "field 'x' is missing"
    assert one(number(default=2.0)) == [2.0]
    assert one(number(default=2.0), x=None) == [2.0]
    assert one(number(default=2.0, scale=2.0), x=None) == [1.0]
    flag = FeatureEncoder([FlagFeature(kind="flag", name="f", default=False)])
    assert one(flag) == [0.0]


def test_listed_category_has_a_slot_for_all_others() -> None:
    encoder = FeatureEncoder([CategoryFeature(kind="category", name="c", values=("a", "7"))])
    assert one(encoder, c="a") == [1, 0, 0]
    assert one(encoder, c=7) == [0, 1, 0]
    assert one(encoder, c="z") == [0, 0, 1]
    assert encoder.column_names == ["c=a", "c=7", "c=(other)"]


def test_hashed_category_is_crc32_of_utf8() -> None:
    encoder = FeatureEncoder([CategoryFeature(kind="category", name="c", buckets=5)])
    for value in ("", "é", "dairy", 12):
        hot = zlib.crc32(str(value).encode()) % 5
        assert one(encoder, c=value) == [float(slot == hot) for slot in range(5)]


@pytest.mark.parametrize("value", [True, 1.5, ["a"], "\ud800"])
def test_category_of_another_type_is_an_error(value: object) -> None:
    encoder = FeatureEncoder([CategoryFeature(kind="category", name="c", buckets=5)])
    assert error(encoder, c=value).startswith("field 'c' must be")


@pytest.mark.parametrize(("value", "expected"), [(True, 1.0), (False, 0.0), (1, 1.0), (0, 0.0)])
def test_flag_takes_truth_values(value: object, expected: float) -> None:
    assert one(FeatureEncoder([FlagFeature(kind="flag", name="f")]), f=value) == [expected]


@pytest.mark.parametrize("value", [2, 1.0, "true", []])
def test_flag_of_another_type_is_an_error(value: object) -> None:
    assert "must be true, false, 1 or 0" in error(FeatureEncoder([FlagFeature(kind="flag", name="f")]), f=value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1.0], "must have 3 numbers, but has 1"),
        ([1.0] * 4, "must have 3 numbers, but has 4"),
        ([1, "2", 3], "element 1 is '2'"),
        ([1, True, 3], "element 1 is true"),
        ([1, 2, None], "element 2 is null"),
        ([math.nan, 2, 3], "element 0 is nan"),
        ([1, 1e39, 3], "element 1 is 1e+39"),
        ([[1], [2], [3]], "element 0 is [1]"),
        ("123", "must be a list of 3 numbers"),
        ({0: 1}, "must be a list of 3 numbers"),
    ],
)
def test_vector_that_is_none_is_an_error(value: object, reason: str) -> None:
    encoder = FeatureEncoder([VectorFeature(kind="vector", name="v", size=3)])
    assert reason in error(encoder, v=value)


def test_arrays_and_numpy_scalars_of_loaders_encode_like_plain_values() -> None:
    encoder = FeatureEncoder(
        [
            NumberFeature(kind="number", name="x"),
            CategoryFeature(kind="category", name="c", values=("7",)),
            FlagFeature(kind="flag", name="f"),
            VectorFeature(kind="vector", name="v", size=2),
        ]
    )
    loaded = {"x": np.float32(1.5), "c": np.int64(7), "f": np.True_, "v": np.array([1, 2], np.int32)}
    assert one(encoder, **loaded) == one(encoder, x=1.5, c="7", f=True, v=[1, 2])


def test_first_bad_field_is_the_one_that_is_told() -> None:
    encoder = FeatureEncoder([NumberFeature(kind="number", name="x"), FlagFeature(kind="flag", name="f")])
    assert error(encoder, x="1", f=7).startswith("field 'x'")


def test_one_bad_record_leaves_the_others_alone() -> None:
    encoder = FeatureEncoder([NumberFeature(kind="number", name="x"), FlagFeature(kind="flag", name="f")])
    vectors, errors = encoder.encode([{"x": 1, "f": 1}, {"x": 2, "f": "no"}, {"f": 0}, {"x": 4, "f": False}])
    assert vectors.tolist() == [[1, 1], [0, 0], [0, 0], [4, 0]]
    assert [problem is None for problem in errors] == [True, False, False, True]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=2),
    st.lists(st.one_of(st.floats(), st.integers(-9, 9), st.booleans()), min_size=1, max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["x", "c", "h", "f", "v"]), values), max_size=6))
def test_any_batch_equals_its_records_one_by_one(records: list[dict[str, Any]]) -> None:
    encoder = FeatureEncoder(
        [
            NumberFeature(kind="number", name="x", log1p=True, clip=3.0),
            CategoryFeature(kind="category", name="c", values=("a",), default="a"),
            CategoryFeature(kind="category", name="h", buckets=3, default=""),
            FlagFeature(kind="flag", name="f", default=True),
            VectorFeature(kind="vector", name="v", size=2),
        ]
    )
    vectors, errors = encoder.encode(records)
    assert vectors.shape == (len(records), encoder.width) == (len(records), 1 + 2 + 3 + 1 + 2)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    for row, record in enumerate(records):
        alone, problem = encoder.encode([record])
        assert np.array_equal(alone[0], vectors[row])
        assert problem[0] == errors[row]


def test_no_features_give_vectors_of_no_width() -> None:
    vectors, errors = FeatureEncoder([]).encode([{}, {}])
    assert vectors.shape == (2, 0)
    assert errors == [None, None]


FEATURES: list[Any] = [
    NumberFeature(kind="number", name="x", log1p=True, clip=3.0),
    CategoryFeature(kind="category", name="c", values=("a", "b")),
    VectorFeature(kind="vector", name="v", size=2),
]


def test_hash_is_the_same_in_every_process() -> None:
    # By hand: printf '{"features":[{"kind":"vector","name":"v","size":2}],"version":1}' | sha256sum
    by_hand = "895243b29b1ce75c85658acf07daf56c0dbbe0c8a9c68fe8390e3e943df1d04e"
    assert FeatureEncoder(FEATURES[2:]).hash == by_hand


@pytest.mark.parametrize(
    "changed",
    [
        FEATURES[::-1],
        FEATURES[:2],
        [FEATURES[0].model_copy(update={"scale": 2.0}), *FEATURES[1:]],
        [FEATURES[0].model_copy(update={"default": 0.0}), *FEATURES[1:]],
        [FEATURES[0], CategoryFeature(kind="category", name="c", values=("b", "a")), FEATURES[2]],
    ],
)
def test_hash_differs_where_the_encoding_does(changed: list[Any]) -> None:
    assert FeatureEncoder(changed).hash != FeatureEncoder(FEATURES).hash


def test_whole_and_decimal_settings_have_one_hash() -> None:
    whole, decimal = (
        Topology.model_validate({"name": "t", "features": [{"kind": "number", "name": "x", "scale": scale}]}).encoder
        for scale in (2, 2.0)
    )
    assert whole.hash == decimal.hash


@pytest.mark.parametrize(
    "options", [{}, {"values": ("a",), "buckets": 2}, {"values": ()}, {"values": ("a", "a")}, {"buckets": 1}]
)
def test_category_needs_exactly_one_good_encoding(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CategoryFeature(kind="category", name="c", **options)


def test_field_read_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="defined twice"):
        FeatureEncoder([FEATURES[0], FlagFeature(kind="flag", name="x")])
