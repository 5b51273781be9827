"""Drift is noticed where there is some, by how much and since when, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from stream_tgat.features import CategoryFeature, FeatureEncoder, NumberFeature, VectorFeature
from stream_tgat.monitoring.drift import BLOCK, REFERENCE, Drift, watched_columns

COUNT = 40_000


def stationary(random: np.random.Generator, count: int = COUNT) -> np.ndarray:
    """A number, a skewed score, a rare flag, a heavy tail, a constant."""
    return np.stack(
        [
            random.normal(3.0, 2.0, count),
            random.beta(0.3, 10.0, count),
            random.random(count) < 0.01,
            random.lognormal(0.0, 2.0, count),
            np.full(count, 0.5),
        ],
        axis=1,
    )


NAMES = ("number", "score", "flag", "tail", "constant")


def fed(drift: Drift, values: np.ndarray, time: float, at_once: int = 777) -> None:
    """In parts of a size that is no multiple of a block's, at the time of their place."""
    for start in range(0, len(values), at_once):
        drift.add(time + start, values[start : start + at_once])


@pytest.mark.parametrize("seed", range(5))
def test_what_stays_as_it_was_has_no_drift(seed: int) -> None:
    drift = Drift(NAMES)
    fed(drift, stationary(np.random.default_rng(seed)), 0.0)
    assert drift.notices() == []


def test_series_that_moves_is_named_with_when_and_by_how_much_and_the_others_are_not() -> None:
    random = np.random.default_rng(0)
    drift = Drift(NAMES)
    before, after = stationary(random), stationary(random)
    fed(drift, before, 0.0)
    after[:, 0] += 2.0
    after[:, 1] *= 3.0
    fed(drift, after, 1e6)
    number, score = drift.notices()
    assert (number.name, score.name) == ("number", "score")
    reference = before[: BLOCK * REFERENCE]
    assert number.reference == pytest.approx(reference[:, 0].mean())
    assert score.reference == pytest.approx(reference[:, 1].mean())
    assert number.present == pytest.approx(5.0, abs=0.3)
    assert score.present == pytest.approx(3 * before[:, 1].mean(), rel=0.3)
    # Soon after it began, and not before.
    assert 1e6 <= number.since <= 1e6 + 4000
    assert 1e6 <= score.since <= 1e6 + 4000


def test_slow_drift_is_held_against_the_beginning_and_not_against_yesterday() -> None:
    random = np.random.default_rng(1)
    drift = Drift(["number"])
    fed(drift, random.normal(size=(COUNT, 1)) + np.linspace(0.0, 1.0, COUNT)[:, None], 0.0)
    (notice,) = drift.notices()
    assert notice.reference == pytest.approx(0.0, abs=0.1)
    assert notice.present == pytest.approx(1.0, abs=0.15)


def test_small_difference_is_no_drift_however_sure() -> None:
    random = np.random.default_rng(2)
    drift = Drift(["number"])
    fed(drift, random.normal(size=(COUNT, 1)), 0.0)
    fed(drift, random.normal(size=(10 * COUNT, 1)) + 0.08, 1e6)
    assert drift.notices() == []


def test_series_that_comes_back_has_drifted_no_more() -> None:
    random = np.random.default_rng(3)
    drift = Drift(["number"])
    for shift, there in ((0.0, False), (1.0, True), (0.0, False), (-1.0, True)):
        fed(drift, random.normal(size=(10_000, 1)) + shift, 1e6 * (1 + abs(shift)))
        assert bool(drift.notices()) is there


def test_first_rise_of_a_flag_that_never_was_is_noticed() -> None:
    drift = Drift(["flag"])
    fed(drift, np.zeros((10_000, 1)), 0.0)
    fed(drift, np.ones((2_000, 1)), 1e6)
    (notice,) = drift.notices()
    assert notice.reference == 0.0
    assert notice.present == pytest.approx(1.0, abs=0.05)


def test_size_of_the_parts_does_not_matter() -> None:
    found = []
    for at_once in (1, 50, 3000):
        random = np.random.default_rng(6)
        drift = Drift(NAMES)
        fed(drift, stationary(random, 5000), 0.0, at_once)
        fed(drift, stationary(random, 5000) + 1.0, 0.0, at_once)
        found.append([(each.name, each.reference, each.present) for each in drift.notices()])
    assert len(found[0]) == 4
    assert found[0] == found[1] == found[2]


def test_restart_makes_what_comes_next_the_reference() -> None:
    random = np.random.default_rng(4)
    drift = Drift(["number"])
    fed(drift, random.normal(size=(10_000, 1)), 0.0)
    drift.restart()
    fed(drift, random.normal(size=(10_000, 1)) + 5.0, 1e6)
    assert drift.notices() == []


def test_columns_of_every_feature_are_watched_up_to_a_number() -> None:
    encoder = FeatureEncoder(
        [
            VectorFeature(kind="vector", name="text", size=300),
            NumberFeature(kind="number", name="amount"),
            CategoryFeature(kind="category", name="shop", values=("a", "b")),
        ]
    )
    columns, names = watched_columns(encoder)
    assert columns == [*range(64), 300, 301, 302, 303]
    assert names[62:] == ["text[62]", "text[63]", "amount", "shop=a", "shop=b", "shop=(other)"]


def test_nothing_to_watch_is_no_error() -> None:
    drift = Drift([])
    drift.add(0.0, np.zeros((100, 0)))
    assert drift.notices() == []


def test_few_values_at_a_time_are_watched_as_many_at_once() -> None:
    """A block is made of what came, however little that is at a time: nothing at all, or less than a block."""
    random = np.random.default_rng(1)
    values = np.concatenate(
        [random.normal(0.0, 1.0, 4 * REFERENCE * BLOCK), random.normal(5.0, 1.0, 4 * REFERENCE * BLOCK)]
    )
    at_once, in_pieces = Drift(["a"]), Drift(["a"])
    for start in range(0, len(values), BLOCK):
        at_once.add(float(start + BLOCK), values[start : start + BLOCK, None])
    for start in range(0, len(values), 8):  # the last of each block comes with the block's time
        in_pieces.add(float(start + 8), values[start : start + 8, None])
        in_pieces.add(float(start + 8), values[:0, None])
    (one,), (other,) = at_once.notices(), in_pieces.notices()
    assert one == other
