"""Means over seeds, against closed forms."""

import math

import pytest

from research.mean_std import mean_std


def test_mean_over_seeds_leaves_out_what_is_undefined():
    found = mean_std([0.1, 0.3, float("nan")])
    assert (found.count, found.mean) == (2, pytest.approx(0.2))
    assert found.std == pytest.approx(math.sqrt(0.02))
    assert math.isnan(mean_std([0.5]).std)
    assert math.isnan(mean_std([]).mean)
