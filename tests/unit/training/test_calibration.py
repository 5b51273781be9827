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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_budget_is_never_exceeded(values, share):
    probability = np.array(values)
    threshold = threshold_for_budget(probability, share)
    assert (probability >= threshold).sum() <= max(share * len(values), 0) + 1e-9


def test_budget_is_used_up_where_there_are_no_ties():
    probability = np.random.default_rng(0).permutation(100) / 100
    assert (probability >= threshold_for_budget(probability, 0.07)).sum() == 7


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.9]), st.booleans()), min_size=1, max_size=40),
    st.floats(0.1, 1),
)
def test_precision_threshold_is_the_lowest_that_keeps_its_word(rows, precision):
    probability, truth = (np.array(column, float) for column in zip(*rows, strict=True))
    threshold = threshold_for_precision(truth, probability, precision)
    fitting = [p for p in set(probability) if truth[probability >= p].mean() >= precision]
    assert threshold == (min(fitting) if fitting else 1.0)
