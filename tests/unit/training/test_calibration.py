"""Calibration against closed forms, and thresholds that keep their word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_tgat.training.calibration import fit_platt, sigmoid, threshold_for_budget, threshold_for_precision


def test_platt_finds_the_curve_that_made_the_labels():
    random = np.random.default_rng(1)
    logit = random.normal(size=200_000)
    truth = (random.random(len(logit)) < sigmoid(0.7 * logit - 2.0)).astype(float)
    slope, offset = fit_platt(logit, truth)
    assert slope == pytest.approx(0.7, abs=0.03)
    assert offset == pytest.approx(-2.0, abs=0.03)


def test_platt_of_balanced_training_brings_back_the_base_rate():
    random = np.random.default_rng(2)
    truth = (random.random(5000) < 0.04).astype(float)
    logit = 2.0 * truth + random.normal(size=5000)
    slope, offset = fit_platt(logit, truth)
    assert sigmoid(slope * logit + offset).mean() == pytest.approx(truth.mean(), abs=0.002)


def test_platt_never_turns_a_ranking_around():
    logit = np.linspace(-1, 1, 1000)
    slope, offset = fit_platt(logit, (logit < -0.5).astype(float))
    assert slope > 0
    assert sigmoid(slope * logit + offset).mean() == pytest.approx(0.25, abs=0.01)


def test_platt_survives_one_class_and_separable_logits():
    for truth in (np.zeros(10), np.ones(10), (np.arange(10) > 4).astype(float)):
        slope, offset = fit_platt(np.linspace(-50, 50, 10), truth)
        assert np.isfinite([slope, offset]).all()
        assert slope > 0


def test_sigmoid_does_not_overflow():
    assert sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist() == [0.0, 0.5, 1.0]


def served(threshold):
    """A threshold as a release keeps it, and workers read it."""
    return float(np.float32(threshold))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_budget_is_never_exceeded(values, share):
    probability = np.array(values, np.float32)
    threshold = served(threshold_for_budget(np.array(values), share))
    assert (probability.astype(float) >= threshold).sum() <= share * len(values) + 1e-9


@pytest.mark.parametrize("tied", [0.3, 0.25, 1e-4, 0.9999])
@pytest.mark.parametrize("rounding", [-1, 0, 1])
def test_ties_stay_silent_in_float32_too_however_they_are_rounded(tied, rounding):
    """99 equal probabilities and one above; one may alert. They are served rounded in another order."""
    probability = np.array([*[tied] * 99, 0.99995])
    threshold = served(threshold_for_budget(probability, 0.01))
    serving = probability.astype(np.float32)
    serving = np.nextafter(serving, np.float32(2 * rounding)) if rounding else serving
    assert (serving.astype(float) >= threshold).tolist() == [False] * 99 + [True]
    all_equal = served(threshold_for_budget(probability[:99], 0.01))
    assert not (serving[:99].astype(float) >= all_equal).any()


def test_budget_is_used_up_where_there_are_no_ties():
    probability = np.random.default_rng(0).permutation(100) / 100
    assert (probability >= threshold_for_budget(probability, 0.07)).sum() == 7


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.9]), st.booleans()), min_size=1, max_size=40),
    st.floats(0.1, 1),
)
def test_precision_threshold_is_the_lowest_that_keeps_its_word(rows, precision):
    probability, truth = (np.array(column, float) for column in zip(*rows, strict=True))
    threshold = served(threshold_for_precision(truth, probability, precision))
    fitting = [p for p in set(probability) if truth[probability >= p].mean() >= precision]
    expected = probability >= min(fitting, default=1.0)
    for serving in (probability, np.nextafter(probability.astype(np.float32), np.float32(0)).astype(float)):
        assert ((serving >= threshold) == expected).all()
